//! Reports: which test answers which public report of another queue's fault, and why some have none. The reports are those of the
//! themes that make up the life of a job; the tests tell of the faults where they stand.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The reports of each theme.
const THEMES: &[(&str, &[u32])] = &[
    ("array-dependency", &[65, 67, 69, 71, 73, 75, 77, 79]),
    ("cancel-race", &[49, 51, 53, 55, 57, 59, 61, 63]),
    ("process-tree", &[29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 221]),
    ("environment", &[100, 102, 104, 106, 108]),
    ("paths-names-quoting", &[82, 84, 86, 88, 90, 92, 94, 96, 98]),
    ("time", &[167, 169, 171, 173, 175, 177]),
    ("client-output", &[180, 182, 184, 186, 188, 190, 192, 225]),
    ("prolog-epilog", &[194, 196, 198, 200, 202, 204]),
];

/// What answers a report.
struct Answer {
    /// B and this number.
    report: u32,
    /// `CRATE::MODULE::NAME`; `it` is this crate, the others are in `lib`.
    tests: &'static [&'static str],
    /// Why there is none, or not all of one.
    words: &'static str,
}

const fn by(report: u32, tests: &'static [&'static str]) -> Answer {
    Answer { report, tests, words: "" }
}

const fn not_yet(report: u32, words: &'static str) -> Answer {
    Answer { report, tests: &[], words }
}

const ANSWERS: &[Answer] = &[
    // Arrays and dependencies.
    by(65, &["it::dependencies::conditions_are_joined_by_and_or_by_or_and_never_by_both"]),
    by(67, &["it::dependencies::what_is_no_dependency_is_refused_and_unknown_ids_are_named"]),
    by(69, &["it::dependencies::a_job_that_is_cancelled_before_it_began_did_not_complete"]),
    by(71, &["it::dependencies::what_runs_is_left_alone_by_what_others_come_to"]),
    by(
        73,
        &[
            "it::dependencies::arrays_and_their_tasks_are_waited_for",
            "it::dependencies::what_is_no_dependency_is_refused_and_unknown_ids_are_named",
            "engine::life::minutes_after_a_start_are_minutes",
        ],
    ),
    by(75, &["it::lives::index_0_is_a_task_like_others"]),
    by(
        77,
        &[
            "it::lives::what_is_no_array_is_refused_and_an_array_has_a_bound",
            "model::array::arrays_are_read_as_slurm_reads_them_and_nothing_large_is_made_of_mistakes",
        ],
    ),
    by(
        79,
        &[
            "it::lives::never_more_tasks_run_at_a_time_than_was_said",
            "it::lives::how_many_tasks_run_at_a_time_changes_while_they_run",
        ],
    ),
    // Cancels that meet something else.
    by(49, &["it::ending::a_cancel_during_starts_that_fail_makes_one_end"]),
    by(
        51,
        &[
            "it::ending::a_cancel_of_a_job_whose_node_is_away_is_kept_and_shown",
            "engine::stories::a_run_that_was_cancelled_while_its_node_was_away_is_cancelled_though_the_node_booted",
        ],
    ),
    by(
        53,
        &[
            "it::steering::ids_may_be_named_twice_and_in_ranges",
            "it::ending::a_thousand_tasks_are_cancelled_in_one_call_and_none_besides",
        ],
    ),
    by(
        55,
        &[
            "it::lives::only_the_tasks_that_are_named_are_cancelled",
            "it::ending::a_thousand_tasks_are_cancelled_in_one_call_and_none_besides",
        ],
    ),
    by(57, &["it::hooks::a_prolog_that_fails_one_task_leaves_the_others"]),
    by(59, &["it::ending::what_has_ended_is_not_requeued_and_what_it_used_stays"]),
    by(
        61,
        &[
            "it::attacks::a_token_that_is_named_again_is_the_same_job",
            "it::personal::a_job_left_offline_is_taken_up_when_gqd_is_there",
        ],
    ),
    by(63, &["it::ending::a_thousand_tasks_are_cancelled_in_one_call_and_none_besides"]),
    // The processes of a job.
    by(29, &["it::ending::a_cancelled_job_leaves_no_process_however_it_hid"]),
    by(31, &["it::ending::a_cancelled_job_leaves_no_process_however_it_hid"]),
    by(
        33,
        &[
            "it::ending::a_cancel_at_any_moment_makes_one_end_and_frees_the_card_once",
            "it::running::nothing_is_left_of_a_job_when_its_card_is_free",
        ],
    ),
    by(35, &["it::ending::a_cancelled_job_leaves_no_process_however_it_hid"]),
    by(37, &["executor::lives::a_reboot_ends_what_lived_and_keeps_what_had_ended"]),
    by(39, &["it::ending::a_job_has_nothing_open_but_its_own"]),
    not_yet(41, "how many processes a job has is not bounded before its fence is a cgroup (pids.max)"),
    not_yet(
        43,
        "a process that cannot die keeps its job COMPLETING, and what that holds, for as long as it lives, in this life of gqnode \
         and the next; that its node is drained for it comes with the cgroup, whose emptiness tells when that is over",
    ),
    not_yet(
        45,
        "who was killed for want of memory is not known before the fence is a cgroup (memory.events)",
    ),
    not_yet(47, "as 45"),
    by(
        221,
        &[
            "it::crash::daemons_are_killed_in_every_order_and_jobs_go_on",
            "it::crash::the_job_of_a_killed_supervisor_fails_and_nothing_of_it_is_left",
        ],
    ),
    // The environment of a job.
    by(100, &["it::environment::odd_bytes_arrive_as_they_were"]),
    by(102, &["it::environment::nothing_of_the_daemons_reaches_a_job"]),
    by(104, &["it::environment::an_empty_environment_is_enough"]),
    by(106, &["it::environment::umask_and_limits_are_those_of_the_submitting_shell"]),
    by(
        108,
        &[
            "it::environment::a_job_may_have_the_environment_of_a_login",
            "supervisor::stages::a_login_that_hangs_or_fails_costs_a_line_in_the_output_and_no_job",
        ],
    ),
    // Paths, names and quotes.
    by(82, &["it::running::odd_names_of_files_are_taken_as_they_are"]),
    by(
        84,
        &[
            "it::running::odd_names_of_files_are_taken_as_they_are",
            "it::names::numbers_in_file_names_are_padded_as_asked_and_never_absurdly",
        ],
    ),
    by(86, &["it::names::numbers_in_file_names_are_padded_as_asked_and_never_absurdly"]),
    by(88, &["it::names::a_name_is_refused_when_it_is_too_long_or_has_controls"]),
    by(90, &["it::names::an_odd_directive_refuses_the_script_and_never_falls_back"]),
    by(92, &["it::submission::arguments_arrive_byte_for_byte"]),
    by(94, &["it::submission::odd_scripts_run_or_are_refused_with_a_word"]),
    by(96, &["it::submission::arguments_arrive_byte_for_byte"]),
    by(98, &["it::submission::the_command_line_wins_over_variables_and_variables_over_the_script"]),
    // Time.
    by(
        167,
        &[
            "it::time::absurd_times_are_refused_or_bounded_and_the_queue_answers",
            "ask::begin::what_is_no_point_in_time_is_refused",
            "ask::refusals::a_bad_value_is_refused_with_its_place",
        ],
    ),
    by(
        169,
        &[
            "it::time::a_job_is_warned_before_its_limit_and_never_at_its_start",
            "supervisor::steering::a_short_run_is_warned_when_half_of_its_limit_is_over_and_never_at_once",
        ],
    ),
    by(171, &["ask::begin::a_change_of_the_clocks_neither_loses_nor_repeats_a_start"]),
    by(173, &["ask::begin::a_change_of_the_clocks_neither_loses_nor_repeats_a_start"]),
    by(175, &["it::crash::a_late_report_changes_nothing_and_times_are_true"]),
    not_yet(177, "gqstat has no --since: what has not ended is always listed"),
    // What clients say.
    by(180, &["it::submission::the_answer_is_what_tools_parse"]),
    by(182, &["it::looking::in_json_words_are_words_and_numbers_are_whole"]),
    by(184, &["it::looking::exit_codes_tell_an_unknown_job_from_an_absent_daemon"]),
    by(
        186,
        &[
            "it::looking::a_job_leaves_the_list_when_its_end_is_recorded",
            "it::crash::a_job_that_is_listed_no_more_has_ended",
        ],
    ),
    by(188, &["it::looking::a_reader_that_goes_away_is_no_error_and_a_full_disk_is"]),
    by(190, &["it::looking::an_ended_job_is_found_in_whatever_order_jobs_ended"]),
    Answer {
        report: 192,
        tests: &["it::ending::a_job_belongs_to_gqnode_and_not_to_the_session_of_its_submission"],
        words: "without systemd, which is not there where this is tested: that a job is where gqnode is, is what counts",
    },
    by(225, &["it::submission::a_script_comes_from_a_file_from_standard_input_or_from_the_command_line"]),
    // Prolog and epilog.
    by(194, &["it::hooks::an_epilog_runs_once_though_nobody_hears_of_its_end"]),
    by(196, &["it::hooks::a_cancel_ends_a_prolog_and_the_epilog_runs_all_the_same"]),
    by(198, &["it::hooks::cards_are_not_given_on_before_the_epilog_has_ended_and_nobody_ends_it"]),
    by(200, &["it::hooks::no_user_brings_a_prolog_or_epilog_of_his_own"]),
    by(202, &["it::hooks::a_failing_prolog_drains_its_node_once_and_the_job_waits"]),
    by(204, &["it::users::a_user_without_an_account_fails_alone"]),
];

/// The files of a module of a crate: `MODULE.rs`, wherever it lies.
fn files(folder: &Path, module: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files(&path, module));
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_stem().is_some_and(|s| s == module)
        {
            found.push(path);
        }
    }
    found
}

/// Whether there is a test of this name.
fn exists(test: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let words: Vec<&str> = test.split("::").collect();
    let [krate, module, name] = words[..] else { return false };
    let folder = if krate == "it" { root.join("tests/it") } else { root.join("lib").join(krate) };
    let head = format!("fn {name}()");
    files(&folder, module).iter().any(|path| {
        let text = fs::read_to_string(path).unwrap();
        let before = text.split_once(&head).map(|(before, _)| before.trim_end());
        // Attributes that say more may stand between the two.
        before.is_some_and(|before| {
            let lines = before.lines().rev().map(str::trim);
            lines
                .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
                .any(|line| line == "#[test]")
        })
    })
}

/// What is wrong with answers to these reports.
fn wrong(reports: &BTreeSet<u32>, answers: &[Answer]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut answered = BTreeSet::new();
    for Answer { report, tests, words } in answers {
        if !reports.contains(report) {
            wrong.push(format!("B{report:03} is not among the reports"));
        }
        if !answered.insert(*report) {
            wrong.push(format!("B{report:03} is answered twice"));
        }
        if tests.is_empty() && words.is_empty() {
            wrong.push(format!("B{report:03} has neither a test nor a word why not"));
        }
        wrong.extend(
            tests
                .iter()
                .filter(|test| !exists(test))
                .map(|test| format!("B{report:03}: there is no test {test}")),
        );
    }
    wrong.extend(reports.difference(&answered).map(|report| format!("B{report:03} is not answered")));
    wrong
}

#[test]
fn every_report_has_a_test_or_a_word_why_not() {
    let reports: BTreeSet<u32> = THEMES.iter().flat_map(|(_, reports)| reports.iter().copied()).collect();
    assert_eq!(reports.len(), THEMES.iter().map(|(_, reports)| reports.len()).sum::<usize>());
    let wrong = wrong(&reports, ANSWERS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_answer_that_is_none_is_found_out() {
    let answers = [
        by(1, &["it::reports::every_report_has_a_test_or_a_word_why_not", "it::reports::nobody_wrote_this"]),
        by(2, &["it::reports::exists", "it::reports", "no::such::test"]),
        by(3, &[]),
        not_yet(4, "words"),
        not_yet(4, "words"),
        not_yet(6, "words"),
    ];
    let found = wrong(&BTreeSet::from([1, 2, 3, 4, 5]), &answers);
    let expected = [
        "B001: there is no test it::reports::nobody_wrote_this",
        "B002: there is no test it::reports::exists",
        "B002: there is no test it::reports",
        "B002: there is no test no::such::test",
        "B003 has neither a test nor a word why not",
        "B004 is answered twice",
        "B006 is not among the reports",
        "B005 is not answered",
    ];
    assert_eq!(found, expected);
}
