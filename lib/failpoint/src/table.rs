//! The table of all durable steps: what each is called, and which programs do it. A step is done at one place in the sources.

macro_rules! steps {
    ($($step:ident $name:literal $($program:ident)+;)*) => {
        /// A durable step: something that is kept, told or begun, and that a promise leans on.
        #[derive(Clone, Copy)]
        #[expect(missing_docs, reason = "the name beside it says it, and the place where it is done")]
        pub enum Step { $($step),* }

        /// The steps, their names, and the programs that do them.
        #[cfg(feature = "failpoints")]
        pub const TABLE: &[(Step, &str, &[&str])] =
            &[$((Step::$step, $name, &[$(stringify!($program)),+])),*];
    };
}

steps! {
    // The state, its spool, and a life of the controller.
    FolderName "folder.name" gqd;
    SpoolMake "spool.make" gqd;
    SpoolSync "spool.sync" gqd;
    StateDraft "state.draft" gqd;
    StateName "state.name" gqd;
    StateSync "state.sync" gqd;
    StateMigrate "state.migrate" gqd;
    StateLife "state.life" gqd;
    StateBallast "state.ballast" gqd;
    StateUnballast "state.unballast" gqd;
    StateProbe "state.probe" gqd;
    StateTokens "state.tokens" gqd;
    HistoryCopy "history.copy" gqd;
    HistoryPart "history.part" gqd;
    HistoryForget "history.forget" gqd;
    ClusterWrite "cluster.write" gqd;
    ClusterName "cluster.name" gqd;
    // Job files.
    JobShard "job.shard" gqd;
    JobMove "job.move" gqd;
    JobSync "job.sync" gqd;
    JobShardSync "job.shard_sync" gqd;
    JobGiveBack "job.give_back" gqd;
    JobRemove "job.remove" gqd;
    DropQuarantine "drop.quarantine" gqd;
    DropClean "drop.clean" gqd;
    // A turn, and what leaves after it.
    TurnCommit "turn.commit" gqd;
    TurnShow "turn.show" gqd;
    TurnAnswer "turn.answer" gqd;
    OrderSend "order.send" gqd;
    ReportTake "report.take" gqd;
    ReportAck "report.ack" gqd;
    // Letters as files.
    LetterFolder "letter.folder" gqd gqnode;
    LetterWrite "letter.write" gqd gqnode;
    LetterName "letter.name" gqd gqnode;
    LetterRemove "letter.remove" gqd gqnode;
    HeadWrite "head.write" gqd gqnode;
    HeadName "head.name" gqd gqnode;
    // A life of a node, and its log.
    NodeLife "node.life" gqnode;
    NodeLifeSync "node.life_sync" gqnode;
    NodeBallast "node.ballast" gqnode;
    NodeUnballast "node.unballast" gqnode;
    LogSegment "log.segment" gqnode;
    LogAppend "log.append" gqnode;
    LogSync "log.sync" gqnode;
    LogRotate "log.rotate" gqnode;
    LogDrop "log.drop" gqnode;
    // Orders, runs, reports.
    OrderTake "order.take" gqnode;
    RunFolder "run.folder" gqnode;
    RunSpare "run.spare" gqnode;
    RunSpawn "run.spawn" gqnode;
    RunTell "run.tell" gqnode;
    RunSweep "run.sweep" gqnode;
    RunForget "run.forget" gqnode;
    RunRemove "run.remove" gqnode;
    ReportSend "report.send" gqnode;
    // The life of a run.
    StepUp "step.up" gqstep;
    StepProlog "step.prolog" gqstep;
    StepFork "step.fork" gqstep;
    StepStarted "step.started" gqstep;
    StepTold "step.told" gqstep;
    StepExited "step.exited" gqstep;
    StepTidy "step.tidy" gqstep;
    StepTidied "step.tidied" gqstep;
    StepEpilog "step.epilog" gqstep;
    StepScript "step.script" gqstep;
    StepEnded "step.ended" gqstep;
    // A submission.
    DropMake "drop.make" gqsub;
    DropWrite "drop.write" gqsub;
    DropSync "drop.sync" gqsub;
    DropLeave "drop.leave" gqsub;
    DropLeaveSync "drop.leave_sync" gqsub;
    DropRemove "drop.remove" gqsub;
    DropHandOver "drop.hand_over" gqsub;
    DropAnswer "drop.answer" gqsub;
}
