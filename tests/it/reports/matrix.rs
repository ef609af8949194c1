//! The matrix of faults: what may go wrong with processes, disks, clocks, nodes, cards and accounts. `world` plays most of it in any order.

use super::{Answer, by, not_yet};

const SWEEP_GQD: &str = "it::faults::gqd_is_killed_at_every_step";
const SWEEP_NODE: &str = "it::faults::gqnode_is_killed_at_every_step";
const SWEEP_STEP: &str = "it::faults::gqstep_is_killed_at_every_step";
const SWEEP_SUB: &str = "it::faults::gqsub_is_killed_at_every_step";
const STORM: &str = "it::faults::nothing_is_lost_and_nothing_runs_twice_whoever_is_killed";
const WORLD: &str = "world::seeds::a_seed_is_played_the_same_way_every_time";

pub(super) const ANSWERS: &[Answer] = &[
    // Processes that die.
    by(
        "gqd is killed before it writes",
        &[SWEEP_GQD, "it::attacks::a_token_that_is_named_again_is_the_same_job"],
    ),
    by("gqd is killed after it wrote and before it answered", &[SWEEP_GQD, SWEEP_SUB]),
    by("gqd is killed after it answered", &["it::crash::an_id_is_known_however_soon_gqd_dies", STORM, WORLD]),
    by(
        "gqd is killed before the job file is where it belongs",
        &[SWEEP_GQD, "spool::drop_box::accepting_twice_is_accepting_once_and_no_id_has_two_files"],
    ),
    by(
        "gqd is killed between a start and its order",
        &[SWEEP_GQD, "spool::letters::letters_that_were_lost_are_written_again_under_their_numbers"],
    ),
    by("gqd is killed between a result and its acknowledgement", &[SWEEP_GQD, WORLD]),
    by(
        "gqnode is killed at each step",
        &[SWEEP_NODE, "executor::lives::a_node_killed_again_and_again_loses_no_start_and_runs_none_twice"],
    ),
    by(
        "gqstep is killed",
        &[SWEEP_STEP, "it::crash::the_job_of_a_killed_supervisor_fails_and_nothing_of_it_is_left"],
    ),
    by("a job kills all it may", &["it::attacks::a_job_reaches_neither_its_supervisor_nor_what_is_anothers"]),
    by(
        "gqd or gqnode is killed for want of memory",
        &[
            STORM,
            "it::resources::a_gqd_with_little_memory_serves_or_ends_with_a_word_and_loses_nothing",
            "it::resources::a_node_with_little_memory_serves_or_ends_with_a_word_and_loses_nothing",
        ],
    ),
    by(
        "no descriptor is left",
        &[
            "it::resources::a_gqd_without_files_left_goes_on_when_it_has_some",
            "it::resources::a_node_without_files_left_starts_each_job_once_when_it_has_some",
        ],
    ),
    by(
        "the table of processes is full",
        &["it::resources::a_node_whose_table_of_processes_is_full_starts_each_job_once_when_there_is_room"],
    ),
    by(
        "two controllers",
        &["it::conf::an_empty_state_is_refused_without_init_and_a_second_controller_always"],
    ),
    by(
        "stale lock, pid and socket files",
        &[
            "it::refusals::gqd_refuses_what_is_not_its_queue",
            "store::place::a_state_is_waited_for_a_moment_and_never_shared",
        ],
    ),
    // Disks.
    by(
        "power is lost: a torn or lost tail",
        &[
            WORLD,
            "it::damage::gqd_cuts_the_torn_end_of_its_log_and_refuses_a_hole_in_it",
            "it::damage::gqnode_refuses_a_log_of_a_newer_format_untouched_and_cuts_a_torn_one",
        ],
    ),
    Answer {
        what: "a rename is lost whose folder was not synced",
        tests: &[WORLD],
        words: "on the worlds' disk; a real machine was not cut off",
    },
    by(
        "a sync fails",
        &[
            "it::sync::a_sync_of_gqd_that_fails_is_never_tried_again_and_loses_nothing",
            "it::sync::a_sync_of_gqnode_that_fails_is_never_tried_again_and_loses_nothing",
            "it::sync::a_sync_of_gqsub_that_fails_is_a_refusal",
        ],
    ),
    by(
        "no room for the state",
        &[
            "it::room::a_full_disk_refuses_jobs_keeps_results_and_recovers_by_itself",
            "it::room::daemons_start_on_a_full_disk_and_results_are_kept",
        ],
    ),
    by(
        "no room on the disk of a node",
        &[
            "it::disks::a_full_disk_of_a_node_takes_no_jobs_and_keeps_results_until_there_is_room",
            "supervisor::journal::a_full_disk_delays_records_and_loses_none",
        ],
    ),
    by("no room in the spool", &["it::disks::a_full_spool_refuses_whoever_submits_and_nobody_else"]),
    by("no room for the output of a job", &["it::disks::a_full_folder_of_a_user_is_seen_by_his_job_alone"]),
    by(
        "no inodes",
        &[
            "it::disks::a_spool_without_inodes_refuses_whoever_submits_and_nobody_else",
            "it::disks::a_state_without_inodes_keeps_results_and_starts_jobs_when_there_are_some",
        ],
    ),
    by(
        "the disk becomes read-only",
        &[
            "it::disks::a_state_that_becomes_read_only_takes_no_jobs_and_comes_back_by_itself",
            "it::disks::a_gqd_that_may_not_write_its_state_says_so_and_does_not_start",
        ],
    ),
    by("/tmp is full", &["it::disks::a_full_tmp_is_nothing_to_daemons_hooks_and_supervisors"]),
    by(
        "damage at the end and in the middle",
        &[
            "store::damage::no_damage_of_a_page_passes_for_the_truth",
            "store::wal::every_byte_counts",
            "it::damage::gqd_refuses_a_damaged_state_and_goes_on_without_what_is_lost_when_told_to",
        ],
    ),
    by(
        "an older or a newer format",
        &[
            "it::golden::what_a_release_wrote_is_read_for_ever",
            "store::turns::files_of_another_format_are_refused_untouched",
            "it::refusals::a_state_that_is_newer_or_older_or_damaged_is_refused_with_the_place_named",
        ],
    ),
    // Files between controller and nodes.
    by(
        "a file of the spool is there twice",
        &[
            "it::names::orders_that_were_obeyed_and_are_put_back_from_a_backup_start_nothing",
            "executor::orders::the_same_start_again_starts_nothing",
        ],
    ),
    by(
        "a file of the spool is half written",
        &[
            "executor::files::a_torn_order_is_waited_for_and_never_skipped",
            "it::letters::a_torn_head_is_waited_out",
            "spool::drop_box::only_old_unfinished_files_are_cleaned_away",
        ],
    ),
    Answer {
        what: "NFS: stale handles, a rename that failed and is done",
        tests: &[WORLD],
        words: "the shared folder of the worlds shows late and out of order; no NFS was to be had, and no error of one is injected",
    },
    not_yet(
        "NFS that hangs",
        "a folder that never answers was not tried: what a job has there hangs in its own supervisor, letters in the thread of their node",
    ),
    // Clocks.
    Answer {
        what: "the clock jumps",
        tests: &[
            WORLD,
            "it::time::absurd_times_are_refused_or_bounded_and_the_queue_answers",
            "supervisor::limit::a_clock_that_stands_brings_nothing_nearer",
        ],
        words: "in the worlds by up to an hour either way; the clock of the machine itself was not set",
    },
    by(
        "summer time begins and ends",
        &["ask::begin::a_change_of_the_clocks_neither_loses_nor_repeats_a_start"],
    ),
    // Nodes.
    by(
        "a node is lost and comes back with its jobs alive",
        &[
            "it::nodes::what_ended_while_its_node_was_lost_ends_so_and_what_lives_runs_on",
            "it::letters::jobs_of_a_node_whose_beats_stop_are_unknown_until_it_is_back",
        ],
    ),
    by(
        "a node boots",
        &[
            "it::nodes::a_boot_ends_what_ran_and_some_of_it_runs_again",
            "executor::lives::a_reboot_ends_what_lived_and_keeps_what_had_ended",
        ],
    ),
    by(
        "two nodes of one name",
        &[
            "it::names::of_two_nodes_of_one_name_the_first_goes_on_over_the_socket",
            "it::names::of_two_nodes_of_one_name_the_first_goes_on_over_files",
        ],
    ),
    by(
        "the disk of a node is wiped",
        &["it::nodes::runs_of_a_node_whose_disk_was_wiped_are_unknown_until_it_boots_or_is_fenced"],
    ),
    by(
        "a state or a log is put back from a backup",
        &[
            "it::names::a_gqd_whose_state_was_put_back_to_an_older_copy_speaks_to_no_node_and_says_what_to_do",
            "it::names::a_node_whose_log_was_put_back_to_an_older_copy_is_another_node",
        ],
    ),
    by(
        "a job with a lease on a node out of sight",
        &[
            "it::leases::the_run_of_a_node_whose_gqnode_is_stopped_ends_itself_and_then_the_job_runs_elsewhere",
            "supervisor::leases::a_run_that_hears_nothing_more_is_dead_when_its_lease_is_over_whoever_of_it_would_not_die",
            WORLD,
        ],
    ),
    by(
        "a restart of gqd with a thousand nodes",
        &["it::many::a_controller_that_was_away_for_long_marks_none_of_a_thousand_nodes_lost"],
    ),
    // Cards.
    by(
        "a card falls off the bus, or says that its memory fails",
        &[
            "it::failing::a_card_that_fails_under_its_job_is_not_given_on_and_is_what_the_job_failed_for",
            "it::failing::a_card_is_looked_at_before_each_start_and_not_forgotten_when_it_is_gone",
        ],
    ),
    by(
        "a slice disappears",
        &[
            "it::failing::a_slice_that_fails_is_not_handed_out_and_the_card_goes_on",
            "it::slices::a_slice_that_disappears_under_its_job_is_not_handed_out_and_hurts_nobody_else",
        ],
    ),
    by(
        "a strange process is on a card",
        &["it::failing::a_stranger_on_a_card_or_slice_keeps_it_from_being_handed_out_until_he_is_gone"],
    ),
    by("the driver hangs", &["it::failing::a_driver_that_hangs_stops_nobody_who_needs_no_card"]),
    // Jobs and their surroundings.
    by(
        "a job is killed for want of memory",
        &["it::groups::who_uses_more_memory_than_he_asked_for_has_run_out_of_it_whatever_his_shell_says"],
    ),
    by(
        "a job ignores SIGTERM",
        &[
            "it::steering::a_deaf_job_is_killed_and_a_polite_one_may_clean_up",
            "it::running::a_job_that_outlives_its_limit_is_a_timeout_whatever_it_says",
        ],
    ),
    not_yet(
        "a process that cannot die",
        "its job stays COMPLETING and keeps what it holds; its node is not drained for it",
    ),
    by(
        "the user is deleted while his job waits",
        &[
            "it::users::a_user_without_an_account_fails_alone",
            "supervisor::refusals::an_account_that_is_gone_fails_the_job",
        ],
    ),
    by(
        "the home, the folder or that of the output is missing",
        &[
            "it::running::a_missing_folder_fails_the_job_and_says_which",
            "supervisor::refusals::a_users_paths_fail_his_job_with_the_path",
        ],
    ),
    by(
        "a prolog or epilog fails",
        &[
            "it::hooks::a_failing_prolog_drains_its_node_once_and_the_job_waits",
            "it::hooks::a_failing_epilog_drains_its_node_and_the_job_keeps_its_end",
            "it::hooks::a_prolog_that_blames_the_job_fails_it_and_nothing_else",
        ],
    ),
    by(
        "starts fail again and again",
        &[
            "engine::stories::starts_that_fail_by_the_sites_fault_are_tried_again_and_drain_the_node_not_the_users_mistake",
            "engine::stories::a_start_that_always_fails_is_given_up",
        ],
    ),
];
