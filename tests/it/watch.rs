//! Watching: `gqstat --watch` on a real terminal (a pseudo one), as its user sees it and types there.

use crate::lab::{Lab, Plan, cards, program_path, until, until_told};
use nix::{
    pty::{Winsize, openpty},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

const ROWS: u16 = 24;
const COLUMNS: u16 = 110;

/// A program on a terminal of its own.
struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn open(lab: &Lab, words: &[&str]) -> Self {
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        // As a login does it: the terminal is the one that /dev/tty is.
        let mut command = lab.client("gqstat");
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(program_path("gqstat")).args(words);
        session.envs(command.env("TERM", "xterm-256color").get_envs().filter_map(|(k, v)| Some((k, v?))));
        let child = session.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(pty.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let (drawn, master): (_, OwnedFd) = (Arc::clone(&screen), pty.master.try_clone().unwrap());
        thread::spawn(move || {
            let (mut master, mut bytes) = (File::from(master), [0; 4096]);
            while let Ok(count @ 1..) = master.read(&mut bytes) {
                drawn.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self { child, keys: File::from(pty.master), screen }
    }

    fn contents(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn shows(&self, what: &str) {
        until_told(
            || format!("{what:?} on\n{}", self.contents()),
            || self.contents().contains(what).then_some(()),
        );
    }

    fn shows_no_more(&self, what: &str) {
        until_told(
            || format!("no {what:?} on\n{}", self.contents()),
            || (!self.contents().contains(what)).then_some(()),
        );
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for its end, after which the terminal is as it was.
    fn ends(&mut self) {
        let status = until("it has left", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
        let is_plain = || !self.screen.lock().unwrap().screen().alternate_screen();
        until("the screen is as it was", || is_plain().then_some(()));
        assert!(!self.screen.lock().unwrap().screen().hide_cursor());
    }
}

/// The line of the screen that begins so.
fn line<'a>(screen: &'a str, head: &str) -> &'a str {
    screen
        .lines()
        .find(|line| line.trim_start().starts_with(head))
        .unwrap_or_else(|| panic!("{head:?} on\n{screen}"))
}

#[test]
fn a_terminal_is_kept_up_to_date_and_hears_keys() {
    let lab = Plan::new().node("n1", &cards(3)).node("n2", "cpus = 2\nmemory = \"4G\"\n").start();
    lab.node_is_there("n2");
    let job = lab.submit("-J render --gpus=2", "exec sleep 600").running();
    let mut terminal = Terminal::open(&lab, &["--watch=1"]);
    terminal.shows("1 run, 0 wait; 2 of 3 cards held");
    let screen = terminal.contents();
    assert!(screen.starts_with("lab  20"), "{screen}");
    assert!(line(&screen, "n1").contains("\u{25a0}\u{25a0}\u{b7}"), "{screen}");
    assert!(line(&screen, "n2").contains("0/2"), "{screen}");
    assert!(line(&screen, &job.id.to_string()).contains("render"), "{screen}");
    // What comes is shown by itself.
    let wide = lab.submit("-J later --gpus=3", "true");
    terminal.shows("1 run, 1 wait");
    terminal.shows("later");
    let screen = terminal.contents();
    assert!(line(&screen, &wide.id.to_string()).contains("(Resources)"), "{screen}");
    // Keys: sorted by state, PD goes before R; the other way round, behind it.
    let order = |screen: &str| screen.find("later") < screen.find("render");
    terminal.types("sss");
    terminal.shows("by state");
    assert!(order(&terminal.contents()), "{}", terminal.contents());
    terminal.types("r");
    terminal.shows("by state, reversed");
    assert!(!order(&terminal.contents()), "{}", terminal.contents());
    terminal.types("?");
    terminal.shows("look again now");
    terminal.types(" ");
    terminal.shows_no_more("look again now");
    terminal.types("p");
    terminal.shows("PAUSED");
    lab.say(&format!("gqcancel {}", job.id)).ok();
    job.ended();
    wide.ended();
    terminal.types("p");
    terminal.shows("0 run, 0 wait; 0 of 3 cards held");
    // gqd goes away and comes back, and it is looked on.
    lab.gqd.stop();
    terminal.shows("again every 1 s");
    lab.gqd.start();
    terminal.shows_no_more("again every 1 s");
    terminal.types("q");
    terminal.ends();
}

/// What the driver says of each card is on the screen, in the list of nodes and in the metrics a few seconds later.
fn busy_cards_are_seen(by_files: bool) -> Lab {
    let mut machine = standin_nvml::shipped("eight-whole").unwrap();
    machine.cards.truncate(2);
    machine.cards.iter_mut().for_each(|card| card.links.clear());
    machine.cards[1].utilization = 4;
    let driver = tempfile::tempdir().unwrap();
    standin_nvml::place(driver.path(), &machine).unwrap();
    let plan = Plan::new().cluster("beat = \"1s\"").node("n1", &cards(0));
    let plan = plan.env("LD_LIBRARY_PATH", driver.path());
    let lab = if by_files { plan.by_files() } else { plan }.start();
    lab.node_is_there("n1");
    // One of them is held, and measured for its run; the other only looked at.
    lab.submit("--gpus=1", "exec sleep 600").running();
    standin_nvml::edit(driver.path(), |machine| machine.cards[0].utilization = 73).unwrap();
    let mut terminal = Terminal::open(&lab, &["--watch=1"]);
    terminal.shows("73 4");
    terminal.types("q");
    terminal.ends();
    let metrics = lab.say("gqctl metrics").ok();
    let gauge = "gq_card_utilization{card=\"0\",node=\"n1\"} 0.73";
    assert!(metrics.contains(gauge) && metrics.contains("gq_card_memory_used_bytes{card=\"1\""), "{metrics}");
    let card = lab.node_view("n1").unwrap()["gpus"][0].clone();
    assert!(card["utilization"] == 0.73 && card["memory_used_mib"].is_number(), "{card}");
    assert_eq!(lab.node("n1").stop(), Some(0));
    lab
}

#[test]
fn how_busy_cards_are_is_seen_as_long_as_their_node_is() {
    let lab = busy_cards_are_seen(false);
    let shown = || lab.node_view("n1").map(|node| node["gpus"][0]["utilization"].clone());
    until("nobody knows", || shown()?.is_null().then_some(()));
    let metrics = lab.say("gqctl metrics").ok();
    assert!(!metrics.contains("gq_card_utilization{"), "{metrics}");
}

#[test]
fn how_busy_cards_are_is_seen_by_files_too() {
    busy_cards_are_seen(true);
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let lab = Plan::new().node("n1", &cards(0)).start();
    let mut terminal = Terminal::open(&lab, &["--watch"]);
    terminal.shows("0 of 0 cards held");
    terminal.types("\u{3}");
    terminal.ends();
    let mut terminal = Terminal::open(&lab, &["--watch"]);
    terminal.shows("0 of 0 cards held");
    kill(Pid::from_raw(terminal.child.id().cast_signed()), Signal::SIGTERM).unwrap();
    terminal.ends();
}

#[test]
fn what_cannot_be_watched_is_said_in_words() {
    let lab = Plan::new().node("n1", &cards(0)).start();
    let said = lab.say("gqstat --watch");
    assert!(said.code == 2 && said.err.contains("this is none") && said.out.is_empty(), "{said:?}");
    lab.gqd.stop();
    let mut terminal = Terminal::open(&lab, &["--watch"]);
    terminal.shows("gqd.sock");
    let status = until("it ends", || terminal.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(3));
}
