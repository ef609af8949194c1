//! Reports about the life of a job: arrays, ends, processes, environment, names, time, what clients say, hooks.

use super::{Answer, by, not_yet};

/// The reports of each theme.
pub(super) const THEMES: &[(&str, &[&str])] = &[
    ("array-dependency", &["B065", "B067", "B069", "B071", "B073", "B075", "B077", "B079"]),
    ("cancel-race", &["B049", "B051", "B053", "B055", "B057", "B059", "B061", "B063"]),
    (
        "process-tree",
        &["B029", "B031", "B033", "B035", "B037", "B039", "B041", "B043", "B045", "B047", "B221"],
    ),
    ("environment", &["B100", "B102", "B104", "B106", "B108"]),
    ("paths-names-quoting", &["B082", "B084", "B086", "B088", "B090", "B092", "B094", "B096", "B098"]),
    ("time", &["B167", "B169", "B171", "B173", "B175", "B177"]),
    ("client-output", &["B180", "B182", "B184", "B186", "B188", "B190", "B192", "B225"]),
    ("prolog-epilog", &["B194", "B196", "B198", "B200", "B202", "B204"]),
];

pub(super) const ANSWERS: &[Answer] = &[
    // Arrays and dependencies.
    by("B065", &["it::dependencies::conditions_are_joined_by_and_or_by_or_and_never_by_both"]),
    by("B067", &["it::dependencies::what_is_no_dependency_is_refused_and_unknown_ids_are_named"]),
    by("B069", &["it::dependencies::a_job_that_is_cancelled_before_it_began_did_not_complete"]),
    by("B071", &["it::dependencies::what_runs_is_left_alone_by_what_others_come_to"]),
    by(
        "B073",
        &[
            "it::dependencies::arrays_and_their_tasks_are_waited_for",
            "it::dependencies::what_is_no_dependency_is_refused_and_unknown_ids_are_named",
            "engine::life::minutes_after_a_start_are_minutes",
        ],
    ),
    by("B075", &["it::lives::index_0_is_a_task_like_others"]),
    by(
        "B077",
        &[
            "it::lives::what_is_no_array_is_refused_and_an_array_has_a_bound",
            "model::array::arrays_are_read_as_slurm_reads_them_and_nothing_large_is_made_of_mistakes",
        ],
    ),
    by(
        "B079",
        &[
            "it::lives::never_more_tasks_run_at_a_time_than_was_said",
            "it::lives::how_many_tasks_run_at_a_time_changes_while_they_run",
        ],
    ),
    // Cancels that meet something else.
    by("B049", &["it::ending::a_cancel_during_starts_that_fail_makes_one_end"]),
    by(
        "B051",
        &[
            "it::ending::a_cancel_of_a_job_whose_node_is_away_is_kept_and_shown",
            "engine::stories::a_run_that_was_cancelled_while_its_node_was_away_is_cancelled_though_the_node_booted",
        ],
    ),
    by(
        "B053",
        &[
            "it::steering::ids_may_be_named_twice_and_in_ranges",
            "it::ending::a_thousand_tasks_are_cancelled_in_one_call_and_none_besides",
        ],
    ),
    by(
        "B055",
        &[
            "it::lives::only_the_tasks_that_are_named_are_cancelled",
            "it::ending::a_thousand_tasks_are_cancelled_in_one_call_and_none_besides",
        ],
    ),
    by("B057", &["it::hooks::a_prolog_that_fails_one_task_leaves_the_others"]),
    by("B059", &["it::ending::what_has_ended_is_not_requeued_and_what_it_used_stays"]),
    by(
        "B061",
        &[
            "it::attacks::a_token_that_is_named_again_is_the_same_job",
            "it::personal::a_job_left_offline_is_taken_up_when_gqd_is_there",
        ],
    ),
    by("B063", &["it::ending::a_thousand_tasks_are_cancelled_in_one_call_and_none_besides"]),
    // The processes of a job.
    by("B029", &["it::ending::a_cancelled_job_leaves_no_process_however_it_hid"]),
    by("B031", &["it::ending::a_cancelled_job_leaves_no_process_however_it_hid"]),
    by(
        "B033",
        &[
            "it::ending::a_cancel_at_any_moment_makes_one_end_and_frees_the_card_once",
            "it::running::nothing_is_left_of_a_job_when_its_card_is_free",
        ],
    ),
    by("B035", &["it::ending::a_cancelled_job_leaves_no_process_however_it_hid"]),
    by("B037", &["executor::lives::a_reboot_ends_what_lived_and_keeps_what_had_ended"]),
    by("B039", &["it::ending::a_job_has_nothing_open_but_its_own"]),
    Answer {
        what: "B041",
        tests: &["it::groups::a_run_has_a_group_of_its_own_which_goes_with_it"],
        words: "the bound of its processes is there; no job was let fork up to it",
    },
    not_yet(
        "B043",
        "a process that cannot die keeps its job COMPLETING, and what that holds, for as long as it lives, in this life of gqnode \
         and the next; that its node is drained for it comes when its control group is looked at, whose emptiness tells when that is over",
    ),
    by(
        "B045",
        &["it::groups::who_uses_more_memory_than_he_asked_for_has_run_out_of_it_whatever_his_shell_says"],
    ),
    by(
        "B047",
        &["it::groups::who_uses_more_memory_than_he_asked_for_has_run_out_of_it_whatever_his_shell_says"],
    ),
    by(
        "B221",
        &[
            "it::crash::daemons_are_killed_in_every_order_and_jobs_go_on",
            "it::crash::the_job_of_a_killed_supervisor_fails_and_nothing_of_it_is_left",
        ],
    ),
    // The environment of a job.
    by("B100", &["it::environment::odd_bytes_arrive_as_they_were"]),
    by("B102", &["it::environment::nothing_of_the_daemons_reaches_a_job"]),
    by("B104", &["it::environment::an_empty_environment_is_enough"]),
    by("B106", &["it::environment::umask_and_limits_are_those_of_the_submitting_shell"]),
    by(
        "B108",
        &[
            "it::environment::a_job_may_have_the_environment_of_a_login",
            "supervisor::stages::a_login_that_hangs_or_fails_costs_a_line_in_the_output_and_no_job",
        ],
    ),
    // Paths, names and quotes.
    by("B082", &["it::running::odd_names_of_files_are_taken_as_they_are"]),
    by(
        "B084",
        &[
            "it::running::odd_names_of_files_are_taken_as_they_are",
            "it::names::numbers_in_file_names_are_padded_as_asked_and_never_absurdly",
        ],
    ),
    by("B086", &["it::names::numbers_in_file_names_are_padded_as_asked_and_never_absurdly"]),
    by("B088", &["it::names::a_name_is_refused_when_it_is_too_long_or_has_controls"]),
    by("B090", &["it::names::an_odd_directive_refuses_the_script_and_never_falls_back"]),
    by("B092", &["it::submission::arguments_arrive_byte_for_byte"]),
    by("B094", &["it::submission::odd_scripts_run_or_are_refused_with_a_word"]),
    by("B096", &["it::submission::arguments_arrive_byte_for_byte"]),
    by("B098", &["it::submission::the_command_line_wins_over_variables_and_variables_over_the_script"]),
    // Time.
    by(
        "B167",
        &[
            "it::time::absurd_times_are_refused_or_bounded_and_the_queue_answers",
            "ask::begin::what_is_no_point_in_time_is_refused",
            "ask::refusals::a_bad_value_is_refused_with_its_place",
        ],
    ),
    by(
        "B169",
        &[
            "it::time::a_job_is_warned_before_its_limit_and_never_at_its_start",
            "supervisor::steering::a_short_run_is_warned_when_half_of_its_limit_is_over_and_never_at_once",
        ],
    ),
    by("B171", &["ask::begin::a_change_of_the_clocks_neither_loses_nor_repeats_a_start"]),
    by("B173", &["ask::begin::a_change_of_the_clocks_neither_loses_nor_repeats_a_start"]),
    by("B175", &["it::crash::a_late_report_changes_nothing_and_times_are_true"]),
    not_yet("B177", "gqstat has no --since: what has not ended is always listed"),
    // What clients say.
    by("B180", &["it::submission::the_answer_is_what_tools_parse"]),
    by("B182", &["it::looking::in_json_words_are_words_and_numbers_are_whole"]),
    by("B184", &["it::looking::exit_codes_tell_an_unknown_job_from_an_absent_daemon"]),
    by(
        "B186",
        &[
            "it::looking::a_job_leaves_the_list_when_its_end_is_recorded",
            "it::crash::a_job_that_is_listed_no_more_has_ended",
        ],
    ),
    by("B188", &["it::looking::a_reader_that_goes_away_is_no_error_and_a_full_disk_is"]),
    by("B190", &["it::looking::an_ended_job_is_found_in_whatever_order_jobs_ended"]),
    Answer {
        what: "B192",
        tests: &["it::ending::a_job_belongs_to_gqnode_and_not_to_the_session_of_its_submission"],
        words: "without systemd, which is not there where this is tested: that a job is where gqnode is, is what counts",
    },
    by("B225", &["it::submission::a_script_comes_from_a_file_from_standard_input_or_from_the_command_line"]),
    // Prolog and epilog.
    by("B194", &["it::hooks::an_epilog_runs_once_though_nobody_hears_of_its_end"]),
    by("B196", &["it::hooks::a_cancel_ends_a_prolog_and_the_epilog_runs_all_the_same"]),
    by("B198", &["it::hooks::cards_are_not_given_on_before_the_epilog_has_ended_and_nobody_ends_it"]),
    by("B200", &["it::hooks::no_user_brings_a_prolog_or_epilog_of_his_own"]),
    by("B202", &["it::hooks::a_failing_prolog_drains_its_node_once_and_the_job_waits"]),
    by("B204", &["it::users::a_user_without_an_account_fails_alone"]),
];
