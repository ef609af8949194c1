//! Letters: what programs of gq say to each other. Socket requests and replies, views of jobs and nodes, orders and
//! reports between controller and node, and the job file.
//!
//! Letters are a type family of their own: records on disk are `gq-store`'s and `gq-nodelog`'s. Only the documents of
//! `gq-model` (request, assignment, outcome) are carried as they are.

mod ask;
mod jobfile;
mod letter;
mod past;
mod reading;
mod seal;
mod view;

pub use ask::{
    ASK_VERSION, Ask, Asked, ClusterView, Failure, ListAsk, MAX_EXPLAINED, MAX_FRAME, MAX_LIST_FRAME,
    MAX_RESERVATION_NAME, MAX_RESERVED, Refusal, RefusalKind, Reply, ReserveAsk, Selection, WaitedEnd,
};
pub use jobfile::{JOB_FILE_VERSION, JobFile, JobFileError, JobFileParts, sha256_hex};
pub use letter::{
    CardNow, Head, LETTER_VERSION, Letter, Letters, LiveRun, MAX_CARDS_NOW, MAX_REFUSAL, Order, OrderBody,
    Report, ReportBody, StopWhy,
};
pub use past::{
    MAX_PAST_WORDS, PastAsk, RunView, SpreadView, UsageAsk, UsageBy, UsageView, WAIT_BOUNDS, WaitsView,
};
pub use reading::{Look, Reading};
pub use seal::{SealError, seal, seal_json, unseal};
pub use view::{
    ArrayView, BudgetView, CardView, ExplanationView, GpuView, HolderView, JobView, NodeView, PartView,
    PartitionView, PriorityView, ReservationView, ReservedView, ShareView, SliceView,
};
