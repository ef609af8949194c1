//! The machine under gq: its processes and users, a job's standard files and limits, and how a supervisor is started,
//! spoken to and swept up after. Decides nothing; every call does one thing and says what the kernel said.

mod around;
mod control;
mod devices;
mod files;
mod groups;
mod hook;
mod identity;
mod inbox;
mod launch;
mod limits;
mod login;
mod machine;
mod pipe;
mod private;
mod process;
mod removal;
mod scratch;
mod spawn;
mod stdio;
mod survivors;
mod sweep;
mod tree;
mod user;

pub use around::{Around, ContainerCommand, ENV_AROUND, HookFolder};
pub use control::{Control, StopKind, Supervisor};
pub use devices::{Devices, OwnCard};
pub use files::{JobFileTrouble, empty_script, folder_path, make_script, read_job_file};
pub use groups::{Ground, Group, Limits};
pub use hook::{hook_programs, output_pipe, run_hook};
pub use identity::{become_user, die_with, give_up_oom_protection, is_oom_protected, own_uid};
pub use inbox::{Event, Inbox, reset_signals};
pub use launch::{
    ExecTrouble, execute, execute_program, fork, gain_no_rights, own_session, settle, sleep_exactly,
};
pub use limits::apply_limits;
pub use login::{LoginTrouble, login_environment};
pub use machine::{
    boot_clock, boot_id, cpu_count, is_exhausted, is_shortage, memory, now, processes_of_a_run, random_bytes,
    words,
};
pub use pipe::{patient_pipe, read_available};
pub use private::{can_be_private, make_private};
pub use process::{living_process, process_start};
pub use removal::{empty_folder, is_empty_folder, remove_folder};
pub use scratch::{is_tidy, make_scratch, open_scratch};
pub use spawn::{
    Becoming, ENV_ASSIGNMENT, ENV_BECOMING, ENV_LEASE, ENV_ROOT, ENV_SPOOL, SpawnRequest,
    block_control_signal, lock_folder, spawn_supervisor,
};
pub use stdio::{
    NO_READER, detach_stdio, install_stdio, open_input, open_output, same_file, set_umask, take_stdout,
};
pub use survivors::{Survivor, survivors};
pub use sweep::{ENV_MARKER, Remains, is_of_run, run_marker, sweep};
pub use tree::{
    Reaped, Spent, WaitedFor, has_ended, kill_descendants, kill_group, reap_children, signal_descendant,
    signal_descendants, signal_descendants_but, stop_descendants,
};
pub use user::Account;
