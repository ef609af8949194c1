//! Reports about what is lost: acknowledged work, room on disks, nodes, cards.

use super::{Answer, by};

/// The reports of each theme.
pub(super) const THEMES: &[(&str, &[&str])] = &[
    (
        "durability",
        &[
            "B001", "B003", "B005", "B007", "B009", "B011", "B013", "B015", "B017", "B019", "B021", "B218",
            "B228",
        ],
    ),
    ("disk-full", &["B023", "B025", "B027"]),
    ("gpu", &["B137", "B139", "B141", "B143", "B145", "B147", "B149", "B151", "B226"]),
    ("node-loss", &["B153", "B155", "B157", "B159", "B161", "B163", "B165"]),
];

pub(super) const ANSWERS: &[Answer] = &[
    // What was acknowledged.
    by("B001", &["it::crash::an_id_is_known_however_soon_gqd_dies"]),
    by(
        "B003",
        &[
            "it::damage::gqd_cuts_the_torn_end_of_its_log_and_refuses_a_hole_in_it",
            "store::damage::the_log_of_a_killed_controller_is_whole_or_refused_or_cut_at_its_end",
        ],
    ),
    by(
        "B005",
        &[
            "world::seeds::a_seed_is_played_the_same_way_every_time",
            "it::golden::what_a_release_wrote_is_read_for_ever",
        ],
    ),
    by(
        "B007",
        &[
            "it::golden::what_a_release_wrote_is_read_for_ever",
            "store::formats::a_file_of_a_format_before_is_read_and_goes_on",
        ],
    ),
    Answer {
        what: "B009",
        tests: &[
            "it::room::a_full_disk_refuses_jobs_keeps_results_and_recovers_by_itself",
            "it::room::daemons_start_on_a_full_disk_and_results_are_kept",
        ],
        words: "there are no snapshots: every turn is a transaction of the live rows",
    },
    by("B011", &["it::conf::an_empty_state_is_refused_without_init_and_a_second_controller_always"]),
    by(
        "B013",
        &[
            "store::damage::ids_go_on_after_a_loss",
            "supervisor::world::two_names_of_one_file_share_it_and_old_content_goes_or_stays_as_asked",
        ],
    ),
    by("B015", &["it::crash::a_submission_during_a_stop_is_taken_or_refused_and_never_lost"]),
    by("B017", &["it::lives::an_array_is_wholly_there_or_not_at_all_whenever_gqd_dies"]),
    by("B019", &["it::dependencies::a_chain_outlives_gqd_however_it_ends"]),
    by(
        "B021",
        &[
            "it::crash::an_id_is_known_however_soon_gqd_dies",
            "executor::lives::a_long_log_is_shortened_and_what_must_be_known_stays_known",
        ],
    ),
    by(
        "B218",
        &[
            "it::faults::gqd_is_killed_at_every_step",
            "it::faults::nothing_is_lost_and_nothing_runs_twice_whoever_is_killed",
        ],
    ),
    by("B228", &["it::crash::many_submissions_outlive_the_death_of_gqd_right_after"]),
    // Room.
    by(
        "B023",
        &[
            "it::room::a_full_disk_refuses_jobs_keeps_results_and_recovers_by_itself",
            "it::disks::a_full_disk_of_a_node_takes_no_jobs_and_keeps_results_until_there_is_room",
        ],
    ),
    by("B025", &["it::disks::a_full_folder_of_a_user_is_seen_by_his_job_alone"]),
    by(
        "B027",
        &[
            "ask::refusals::scripts_that_could_not_run_are_refused_before_anything_is_stored",
            "spool::attacks::the_size_is_refused_before_anything_is_read",
        ],
    ),
    // Cards.
    by("B137", &["it::cards::no_card_is_handed_out_twice"]),
    by(
        "B139",
        &["it::failing::a_stranger_on_a_card_or_slice_keeps_it_from_being_handed_out_until_he_is_gone"],
    ),
    by("B141", &["it::crash::a_job_that_is_requeued_twenty_times_holds_its_card_once"]),
    by("B143", &["it::cards::a_card_that_fails_is_shown_and_not_handed_out"]),
    by(
        "B145",
        &[
            "it::cards::a_job_sees_its_own_cards_and_no_others",
            "it::groups::a_job_opens_its_own_cards_and_no_others_by_whatever_path",
        ],
    ),
    by(
        "B147",
        &["it::failing::a_card_that_fails_under_its_job_is_not_given_on_and_is_what_the_job_failed_for"],
    ),
    Answer {
        what: "B149",
        tests: &["it::cards::cards_of_the_driver_are_named_by_uuid"],
        words: "the frameworks themselves are not here",
    },
    by("B151", &["it::crash::cards_are_right_when_gqd_dies_while_a_job_completes"]),
    by("B226", &["it::submission::an_impossible_request_is_refused_with_what_there_is"]),
    // Nodes.
    by(
        "B153",
        &[
            "it::crash::a_late_report_changes_nothing_and_times_are_true",
            "it::nodes::what_ended_while_its_node_was_lost_ends_so_and_what_lives_runs_on",
        ],
    ),
    by("B155", &["it::nodes::a_lost_node_is_used_again_by_itself_and_a_drained_one_when_an_admin_says_so"]),
    by(
        "B157",
        &[
            "engine::stories::a_run_that_nobody_here_knows_is_ended",
            "nodecore::random::the_laws_hold_on_random_histories",
        ],
    ),
    by("B159", &["it::nodes::what_ended_while_its_node_was_lost_ends_so_and_what_lives_runs_on"]),
    by("B161", &["it::nodes::what_killed_supervisors_left_is_gone_before_its_cards_are_given_on"]),
    by(
        "B163",
        &[
            "it::letters::jobs_of_a_node_whose_beats_stop_are_unknown_until_it_is_back",
            "world::seeds::a_seed_is_played_the_same_way_every_time",
        ],
    ),
    by("B165", &["it::conf::an_empty_state_is_refused_without_init_and_a_second_controller_always"]),
];
