//! The machine under gq: its processes and users, a job's standard files and limits, and how a supervisor is started,
//! spoken to and swept up after. Decides nothing; every call does one thing and says what the kernel said.

mod control;
mod machine;
mod process;
mod spawn;
mod sweep;
mod user;

pub use control::{Control, StopKind, Supervisor};
pub use machine::{boot_clock, boot_id, cpu_count, memory, now};
pub use process::process_start;
pub use spawn::{
    ENV_ASSIGNMENT, ENV_ROOT, ENV_SPOOL, SpawnRequest, block_control_signal, lock_folder, spawn_supervisor,
};
pub use sweep::{ENV_MARKER, Remains, run_marker, sweep};
pub use user::Account;
