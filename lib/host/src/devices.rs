//! Which device files the processes of a control group can open: a program that the kernel runs at each opening, whoever opens and by whatever
//! path. It stays with the group when whoever gave it is gone.
//!
//! Source of the forms: the kernel's `bpf.h`; of what is asked of the program: `bpf_cgroup_dev_ctx` there.

use crate::groups::unless_gone;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
};

/// The major number of `/dev/nvidia0`, `/dev/nvidiactl` and their like, on every machine.
const NVIDIA: u32 = 195;

/// Which minor number stands for which instance of which card.
const MIG_MINORS: &str = "/proc/driver/nvidia-caps/mig-minors";

/// Character devices that are kept from a run, and those of them that are its own; all others are as their modes say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// Major numbers of those that are kept from it.
    pub majors: Vec<u32>,
    /// Its own: major and minor number.
    pub own: Vec<(u32, u32)>,
}

/// A card that a run holds, or a slice of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnCard {
    /// The card's minor number.
    pub minor: u32,
    /// GPU instance and compute instance of the slice; none for a whole card.
    pub slice: Option<(u32, u32)>,
}

/// The major numbers of the character devices whose driver's name begins like this, each with that name; they come first in the list.
fn read_majors(text: &str, prefix: &str) -> Vec<(String, u32)> {
    let characters = text.lines().take_while(|line| !line.starts_with("Block"));
    let lines = characters.filter_map(|line| line.trim().split_once(' '));
    let named = lines.filter(|(_, name)| name.starts_with(prefix));
    named.filter_map(|(number, name)| Some((name.to_owned(), number.parse().ok()?))).collect()
}

fn read_minors<'a>(listed: &'a str, own: &'a [String]) -> impl Iterator<Item = u32> + 'a {
    let lines = listed.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(|(name, _)| own.iter().any(|own| own == name))
        .filter_map(|(_, minor)| minor.trim().parse().ok())
}

impl Devices {
    /// All cards of NVIDIA's driver are kept from a run but its own, with what every program that uses a card needs, and the instances of its
    /// slices, which have device files of their own. Nothing is kept when there is neither a driver nor a card (`are_cards`).
    ///
    /// # Errors
    /// When it cannot be read what the driver has.
    pub fn of_run(are_cards: bool, own: &[OwnCard]) -> io::Result<Self> {
        let drivers = fs::read_to_string("/proc/devices")?;
        let instances = match own.iter().any(|card| card.slice.is_some()) {
            true => unless_gone(fs::read_to_string(MIG_MINORS), String::new())?,
            false => String::new(),
        };
        Ok(Self::of(&drivers, &instances, are_cards, own))
    }

    /// From the lists of drivers and of instances.
    fn of(drivers: &str, instances: &str, are_cards: bool, own: &[OwnCard]) -> Self {
        let drivers = read_majors(drivers, "nvidia");
        let mut devices = Self::default();
        devices.majors.extend(are_cards.then_some(NVIDIA));
        devices.majors.extend(drivers.iter().map(|(_, major)| *major));
        for card in own {
            devices.own.extend([card.minor, 255, 254].map(|minor| (NVIDIA, minor)));
            for (name, major) in &drivers {
                if name.starts_with("nvidia-uvm") {
                    devices.own.extend([(*major, 0), (*major, 1)]);
                }
                if let Some((gpu, compute)) = card.slice.filter(|_| name == "nvidia-caps") {
                    let slice = format!("gpu{}/gi{gpu}", card.minor);
                    let files = [format!("{slice}/access"), format!("{slice}/ci{compute}/access")];
                    devices.own.extend(read_minors(instances, &files).map(|minor| (*major, minor)));
                }
            }
        }
        devices.majors.sort_unstable();
        devices.majors.dedup();
        devices.own.sort_unstable();
        devices.own.dedup();
        devices
    }

    /// Keeps the processes of this group of version 2 from what is not theirs, from now on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn keep(&self, group: &Path) -> io::Result<()> {
        let program = load(&self.program())?;
        let group = File::open(group)?;
        let attach = Attach {
            target: descriptor(&group),
            program: descriptor(&program),
            kind: BPF_CGROUP_DEVICE,
            flags: 0,
        };
        bpf(BPF_PROG_ATTACH, &attach).map(drop)
    }

    /// The same for a group of version 1, from now on: nothing can be opened but what stands in its list.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn list(&self, group: &Path) -> io::Result<()> {
        let drivers = fs::read_to_string("/proc/devices")?;
        fs::write(group.join("devices.deny"), "a")?;
        let allow = |what: &str| fs::write(group.join("devices.allow"), what);
        allow("b *:* rwm")?;
        let others = read_majors(&drivers, "").into_iter().map(|(_, major)| major);
        for major in others.filter(|major| !self.majors.contains(major)).collect::<BTreeSet<u32>>() {
            allow(&format!("c {major}:* rwm"))?;
        }
        self.own.iter().try_for_each(|(major, minor)| allow(&format!("c {major}:{minor} rwm")))
    }

    /// The program: asked for a device, it answers 1 when it may be opened and 0 when not.
    fn program(&self) -> Vec<Instruction> {
        const LOAD: u8 = 0x61;
        const AND: u8 = 0x54;
        const SET: u8 = 0xb7;
        const IF_EQUAL: u8 = 0x15;
        const IF_NOT: u8 = 0x55;
        const EXIT: u8 = 0x95;
        /// A character device, in the low half of what is asked.
        const CHARACTER: u32 = 2;
        let allow = 5 + 2 * self.own.len() + self.majors.len();
        let deny = allow + 2;
        let mut program = vec![
            Instruction::of(LOAD, 2, 1, 0, 0),
            Instruction::of(AND, 2, 0, 0, 0xffff),
            Instruction::of(LOAD, 3, 1, 4, 0),
            Instruction::of(LOAD, 4, 1, 8, 0),
        ];
        let mut jump = |code, register, value, to: usize| {
            let far = i16::try_from(to.saturating_sub(program.len() + 1)).unwrap_or(i16::MAX);
            program.push(Instruction::of(code, register, 0, far, value));
        };
        jump(IF_NOT, 2, CHARACTER, allow);
        for (number, (major, minor)) in self.own.iter().enumerate() {
            jump(IF_NOT, 3, *major, 7 + 2 * number);
            jump(IF_EQUAL, 4, *minor, allow);
        }
        for major in &self.majors {
            jump(IF_EQUAL, 3, *major, deny);
        }
        // The kernel takes no program with a part that is never come to.
        let answers = if self.majors.is_empty() { &[1][..] } else { &[1, 0] };
        for &answer in answers {
            program.push(Instruction::of(SET, 0, 0, 0, answer));
            program.push(Instruction::of(EXIT, 0, 0, 0, 0));
        }
        program
    }
}

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_ATTACH: libc::c_long = 8;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_CGROUP_DEVICE: u32 = 6;

/// One instruction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u8,
    /// To, in the low half; from, in the high one.
    registers: u8,
    offset: i16,
    value: u32,
}

impl Instruction {
    const fn of(code: u8, to: u8, from: u8, offset: i16, value: u32) -> Self {
        Self { code, registers: to | (from << 4), offset, value }
    }
}

/// What loads a program; the kernel takes what is left out as zero.
#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    program: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_kind: u32,
}

/// What gives a program to a group.
#[repr(C)]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

fn descriptor(of: &impl AsRawFd) -> u32 {
    of.as_raw_fd().cast_unsigned()
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let load = Load {
        kind: BPF_PROG_TYPE_CGROUP_DEVICE,
        count: u32::try_from(program.len()).map_err(io::Error::other)?,
        program: program.as_ptr().addr() as u64,
        licence: c"".as_ptr().addr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: [0; 16],
        interface: 0,
        attach_kind: BPF_CGROUP_DEVICE,
    };
    let fd = bpf(BPF_PROG_LOAD, &load)?;
    // SAFETY: the descriptor is new (close-on-exec by definition), and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf<T>(command: libc::c_long, words: &T) -> io::Result<i32> {
    let pointer: *const T = words;
    // SAFETY: reads the words, and what they point to, which outlive the call; writes nothing, as no log is asked for.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) };
    match i32::try_from(done) {
        Ok(done) if done >= 0 => Ok(done),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers, by an interpreter of the few instructions it is made of.
    fn answer(program: &[Instruction], asked: [u32; 3]) -> u32 {
        let (mut registers, mut at) = ([0u32; 5], 0);
        loop {
            let Instruction { code, registers: both, offset, value } = program[at];
            let to = usize::from(both & 15);
            at += 1;
            let jumps = match code {
                0x61 => {
                    registers[to] = asked[usize::try_from(offset).unwrap() / 4];
                    false
                }
                0x54 => {
                    registers[to] &= value;
                    false
                }
                0xb7 => {
                    registers[to] = value;
                    false
                }
                0x15 => registers[to] == value,
                0x55 => registers[to] != value,
                0x95 => return registers[0],
                code => panic!("{code:#x}"),
            };
            at += if jumps { usize::try_from(offset).unwrap() } else { 0 };
        }
    }

    #[test]
    fn a_program_lets_through_its_own_and_what_is_kept_from_nobody() {
        let devices = Devices { majors: vec![195, 510], own: vec![(195, 1), (195, 255), (510, 0)] };
        let program = devices.program();
        let may = |kind: u32, major, minor| answer(&program, [kind, major, minor]) == 1;
        // Reading and writing stand in the high half.
        for kind in [2, 2 | (6 << 16)] {
            let own = (0..=255).filter(|minor| may(kind, 195, *minor)).collect::<Vec<_>>();
            assert_eq!(own, [1, 255]);
            assert!(may(kind, 510, 0) && !may(kind, 510, 1) && may(kind, 1, 3) && may(kind, 196, 0));
        }
        assert!(may(1, 195, 0), "a disk with that number is no card");
        let none = Devices { majors: vec![195], own: Vec::new() }.program();
        assert!(answer(&none, [2, 195, 255]) == 0 && answer(&none, [2, 5, 0]) == 1);
        assert_eq!(answer(&Devices::default().program(), [2, 195, 0]), 1);
    }

    #[test]
    fn a_run_has_its_cards_and_slices_and_what_every_program_needs() {
        let drivers = "Character devices:\n195 nvidia\n235 nvidia-caps\n509 nvidia-uvm\n";
        let instances = "gpu2/gi1/access 12\ngpu2/gi1/ci0/access 13\ngpu2/gi2/access 21\n";
        let whole = OwnCard { minor: 1, slice: None };
        let slice = OwnCard { minor: 2, slice: Some((1, 0)) };
        let none = Devices::of(drivers, instances, true, &[]);
        assert_eq!((none.majors.as_slice(), none.own.as_slice()), (&[195, 235, 509][..], &[][..]));
        let uses = [(195, 254), (195, 255), (509, 0), (509, 1)];
        let own = |more: &[(u32, u32)]| {
            let mut own = [&uses[..], more].concat();
            own.sort_unstable();
            own
        };
        assert_eq!(Devices::of(drivers, instances, true, &[whole]).own, own(&[(195, 1)]));
        let both = Devices::of(drivers, instances, true, &[whole, slice]);
        assert_eq!(both.own, own(&[(195, 1), (195, 2), (235, 12), (235, 13)]));
        assert_eq!(Devices::of("", "", true, &[whole]).majors, [195]);
        assert_eq!(Devices::of("", "", false, &[]), Devices::default());
    }

    /// Where there is the controller of version 1, for root.
    #[test]
    fn a_list_lets_through_what_a_program_does() {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = groups.lines().find_map(|line| line.split_once(":devices:/")).map_or("", |(_, own)| own);
        let group =
            Path::new("/sys/fs/cgroup/devices").join(own).join(format!("gq-list-{}", std::process::id()));
        if fs::create_dir(&group).is_err() {
            eprintln!("left out: {} cannot be made", group.display());
            return;
        }
        // Memory devices stand for cards: /dev/null is the run's own, /dev/zero another's.
        Devices { majors: vec![1], own: vec![(1, 3)] }.list(&group).unwrap();
        let opens = "echo $$ >\"$0\"/cgroup.procs; for f in /dev/null /dev/zero /dev/ptmx; do (: <$f) 2>/dev/null && echo $f; done";
        let mut shell = std::process::Command::new("sh");
        let said = shell.args(["-c", opens]).arg(&group).output().unwrap();
        fs::remove_dir(&group).unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), "/dev/null\n/dev/ptmx\n");
    }

    #[test]
    fn drivers_are_found_by_their_names_among_character_devices() {
        let text = "Character devices:\n  1 mem\n195 nvidia\n235 nvidia-caps\n509 nvidia-uvm\n\nBlock devices:\n  7 nvidia-disk\n";
        let found = read_majors(text, "nvidia");
        assert_eq!(found.iter().map(|(_, major)| *major).collect::<Vec<_>>(), [195, 235, 509]);
        let minors = "config 1\ngpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\ngpu0/gi21/access 210\ngpu1/gi2/access 156\n";
        let own = ["gpu0/gi2/access".to_owned(), "gpu0/gi2/ci0/access".to_owned()];
        assert_eq!(read_minors(minors, &own).collect::<Vec<_>>(), [21, 22]);
        assert_eq!(read_majors(text, "nvidia-caps"), [("nvidia-caps".to_owned(), 235)]);
    }
}
