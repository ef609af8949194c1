//! Attacks of ordinary users, and of whoever has the account of `gqd`: by name, in the order in which they could be tried from outside inwards.

use super::{Answer, by};

const HONEST: &str = "it::attacks::only_an_honest_file_in_the_drop_box_makes_a_job";
const STOLEN_LINK: &str =
    "it::stolen::orders_that_a_stolen_gqd_gives_over_a_nodes_link_run_nothing_but_what_a_user_handed_in";
const STOLEN: &str =
    "it::stolen::orders_that_a_stolen_gqd_writes_to_a_nodes_folder_run_nothing_but_what_a_user_handed_in";
const REACH: &str = "it::attacks::a_job_reaches_neither_its_supervisor_nor_what_is_anothers";
const FUZZ: &str = "fuzz::replay::every_target_is_replayed";

pub(super) const ANSWERS: &[Answer] = &[
    // The drop box.
    by(
        "a link in the drop box to what is secret, endless or hangs",
        &[HONEST, "spool::attacks::links_pipes_sockets_and_folders_are_not_taken_and_never_waited_for"],
    ),
    Answer {
        what: "a pipe, socket, device or folder in the drop box, or a file system that hangs",
        tests: &[HONEST, "spool::attacks::a_device_is_not_taken"],
        words: "no file system of a user's is mounted in the box: nobody but root and gq can make a folder there",
    },
    by(
        "another's file linked or moved into the drop box",
        &[
            HONEST,
            "spool::attacks::a_file_linked_or_moved_here_from_elsewhere_is_not_its_owners_word",
            "it::openings::gqd_serves_nobody_else_where_users_may_link_to_each_others_files",
        ],
    ),
    by(
        "a file that was given away, or that others may write",
        &[HONEST, "spool::attacks::a_file_that_others_may_write_proves_nothing"],
    ),
    by(
        "a file that is replaced, cut or grown while it is read",
        &[
            "spool::attacks::a_file_replaced_while_it_is_read_is_one_of_its_versions",
            "spool::attacks::a_file_that_grows_and_shrinks_is_read_whole_or_not_at_all",
            "spool::attacks::what_a_file_was_exchanged_for_becomes_no_job_file",
        ],
    ),
    by(
        "a job file that is rewritten after it was accepted",
        &[REACH, "supervisor::refusals::a_job_file_that_is_not_what_was_accepted_is_not_run"],
    ),
    by(
        "huge and endless files, heaps of them, and odd names",
        &[
            HONEST,
            "spool::attacks::the_size_is_refused_before_anything_is_read",
            "spool::attacks::odd_names_are_neither_listed_nor_opened",
            "spool::drop_box::nobodys_heap_of_files_hides_another_users",
            "it::bounds::a_heap_of_one_users_files_hides_nobodys_job_and_fills_no_log",
            "it::bounds::odd_names_in_the_drop_box_are_told_of_once_and_go_after_their_time",
        ],
    ),
    // What a user names.
    by(
        "names and patterns that lead elsewhere",
        &[
            "it::files::a_pattern_is_no_program_and_a_name_no_folder",
            "it::names::scripts_and_folders_of_any_name_run_where_they_are",
        ],
    ),
    by(
        "an output that is a link, a pipe, a folder or another's",
        &[
            "supervisor::refusals::what_a_user_may_not_write_is_not_written",
            "supervisor::refusals::a_users_paths_fail_his_job_with_the_path",
            "it::users::jobs_of_two_users_run_as_those_users",
        ],
    ),
    by(
        "folders that are exchanged while jobs begin and end",
        &[
            "it::files::a_folder_that_is_exchanged_all_the_time_leads_nobody_elsewhere",
            "host::removal::root_removes_nothing_for_a_user_that_is_anothers",
        ],
    ),
    by(
        "variables that change what root's programs do",
        &[
            "it::environment::nothing_of_the_daemons_reaches_a_job",
            "it::hooks::a_prolog_runs_before_the_script_and_an_epilog_after_it_and_they_see_nothing_of_the_users",
            "it::hooks::no_user_brings_a_prolog_or_epilog_of_his_own",
        ],
    ),
    by(
        "a user's words in the shell of a hook or a mail program",
        &[
            "it::hooks::a_prolog_runs_before_the_script_and_an_epilog_after_it_and_they_see_nothing_of_the_users",
            "it::messages::a_recipient_that_could_be_more_than_one_is_refused_and_so_is_a_name_of_several_lines",
            "it::messages::the_submit_hook_knows_who_asks_and_lends_nobody_its_rights",
        ],
    ),
    by(
        "controls and lookalikes on others' terminals and in logs",
        &[
            "it::names::a_jobs_name_is_kept_exactly_and_shown_as_it_is",
            "it::names::a_name_is_refused_when_it_is_too_long_or_has_controls",
            "it::names::what_goes_wrong_with_odd_names_is_told_safely",
        ],
    ),
    // What is read.
    by(
        "bombs of JSON",
        &[
            FUZZ,
            "it::bounds::no_json_is_a_bomb",
            "it::bounds::a_job_file_of_many_short_strings_takes_no_more_than_its_size",
        ],
    ),
    by(
        "arrays, ranges and dependencies without end",
        &[
            FUZZ,
            "it::bounds::numbers_and_counts_of_any_size_are_refused_or_borne",
            "it::bounds::rings_of_dependencies_are_refused",
            "it::bounds::scattered_tasks_are_borne_or_refused",
        ],
    ),
    by(
        "times and sizes beyond every number",
        &[FUZZ, "it::bounds::numbers_and_counts_of_any_size_are_refused_or_borne"],
    ),
    by(
        "who is slow, silent or many",
        &[
            "it::attacks::whatever_comes_over_the_socket_others_are_answered",
            "ipc::conn::a_frame_that_comes_in_drops_has_a_time_as_a_whole",
            "ipc::conn::a_frame_that_is_read_in_drops_has_a_time_as_a_whole",
            "it::bounds::whoever_says_half_and_reads_nothing_keeps_nobody_waiting",
            "it::bounds::files_passed_along_do_not_pile_up",
            "controller::guests::whoever_has_most_gives_a_place_up_to_one_who_has_fewer",
        ],
    ),
    by(
        "no file is left to open",
        &[
            "it::attacks::a_gqd_that_is_short_of_files_lives_and_hears_others",
            "it::bounds::users_who_hold_every_place_give_one_up_to_who_has_none",
        ],
    ),
    // What a job does.
    Answer {
        what: "memory, processes and shared memory without end",
        tests: &[
            "it::groups::who_uses_more_memory_than_he_asked_for_has_run_out_of_it_whatever_his_shell_says",
            "it::groups::a_run_has_a_group_of_its_own_which_goes_with_it",
            "it::groups::what_is_private_is_seen_by_its_run_alone_and_goes_with_it",
            "it::groups::no_descriptor_leads_out_of_what_is_private",
            "supervisor::ends::who_forks_and_exits_all_the_time_is_caught",
        ],
        words: "a bomb of processes up to the bound itself would starve the tests beside it; the bound is looked at instead",
    },
    by(
        "processes that stay when their job has ended",
        &[
            "it::ending::a_cancelled_job_leaves_no_process_however_it_hid",
            "it::groups::whoever_hides_from_a_killed_supervisor_is_found_in_the_group",
            "supervisor::ends::nothing_survives_its_job",
            "it::bounds::a_private_folder_that_will_not_be_emptied_keeps_no_card",
        ],
    ),
    by("a job that would end its supervisor or look into it", &[REACH]),
    by(
        "root's jobs, and rights that cannot be given up",
        &[
            "it::start::who_cannot_become_the_user_runs_nothing",
            "supervisor::refusals::jobs_of_root_are_refused_unless_the_node_serves_root",
            STOLEN,
        ],
    ),
    by(
        "groups that are not the user's, or not any more",
        &[
            "supervisor::world::a_job_of_another_user_has_all_the_groups_that_were_found_for_him_and_no_other",
            "it::users::jobs_of_two_users_run_as_those_users",
        ],
    ),
    by(
        "an end or an order that somebody made up",
        &[
            REACH,
            STOLEN,
            STOLEN_LINK,
            "it::stolen::a_node_writes_its_letters_nowhere_else",
            "spool::letters::forged_letters_are_an_error_and_not_a_letter",
        ],
    ),
    by(
        "what is another's, steered",
        &[
            "it::users::nobody_steers_what_is_anothers",
            "it::rights::whatever_can_be_asked_is_refused_to_whom_it_is_not_for_and_logged",
            "it::rights::what_is_private_is_to_others_as_if_it_were_not_there",
        ],
    ),
    by(
        "scripts, variables and words of others, read",
        &["it::files::what_is_said_in_confidence_is_read_by_nobody_else", REACH],
    ),
    Answer {
        what: "a card as the one before left it",
        tests: &[
            "it::hooks::cards_are_not_given_on_before_the_epilog_has_ended_and_nobody_ends_it",
            "it::groups::a_job_opens_its_own_cards_and_no_others_by_whatever_path",
            "it::setback::a_card_is_set_back_before_another_gets_it_and_no_other_card_is_touched",
        ],
        words: "its memory is emptied by an epilog of the site, which needs a real card to be seen",
    },
    by(
        "logs that are filled or forged",
        &[
            "it::rights::nobody_fills_the_log_with_what_he_is_refused_or_forges_a_line_of_it",
            "it::bounds::a_heap_of_one_users_files_hides_nobodys_job_and_fills_no_log",
        ],
    ),
    by(
        "ends, cancels and starts that race",
        &[
            "it::ending::a_cancel_at_any_moment_makes_one_end_and_frees_the_card_once",
            "it::steering::a_job_that_is_cancelled_while_it_starts_is_gone_all_the_same",
        ],
    ),
    by(
        "a pid that is somebody else's by now",
        &[
            "host::control::a_pid_with_another_start_is_somebody_else",
            "host::tree::both_ways_find_the_same_descendants",
        ],
    ),
    by(
        "a program of root's that writes to a socket it was given",
        &["it::rights::a_setuid_program_that_writes_into_a_socket_lends_nobody_its_rights"],
    ),
    by(
        "somebody else at the socket's place",
        &[
            "it::start::a_client_tells_nothing_to_who_is_not_gqd",
            "ipc::listener::what_is_no_socket_is_left_alone",
            "spool::folders::folders_that_others_may_write_or_exchange_are_refused_with_what_to_do",
            "it::openings::daemons_do_not_start_below_what_others_could_exchange",
            "it::openings::gqd_does_not_begin_in_a_folder_of_another_or_at_a_place_that_is_taken",
            "it::openings::a_conf_file_and_programs_of_others_are_not_heeded",
            "it::openings::a_drop_box_that_becomes_unsafe_is_shut_until_it_is_mended",
            "it::openings::a_node_of_another_cluster_is_refused",
        ],
    ),
    Answer {
        what: "a client that lies about itself",
        tests: &[HONEST],
        words: "whose it is cannot be lied about; folder, mask and limits are set as its user, who could do that anyway",
    },
    by("another's token or file name", &[HONEST]),
    by(
        "an account whose number was given to somebody else",
        &[
            "supervisor::refusals::an_account_with_another_name_is_another",
            "supervisor::refusals::an_account_of_somebody_else_is_not_used",
        ],
    ),
];
