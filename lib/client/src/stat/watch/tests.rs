//! The view by its keys, and the screen as it is drawn, without a terminal.

use super::{
    Seen, screen,
    view::{Deed, View},
};
use crate::stat::tests::{house, running, waiting};
use gq_model::Uid;
use gq_proto::JobView;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};
use std::time::Duration;

fn view(jobs: Vec<JobView>) -> View {
    let mut view = View::new(Uid(1000), Duration::from_secs(2), false);
    view.take(Ok(seen(jobs)));
    view
}

fn seen(jobs: Vec<JobView>) -> Seen {
    Seen { cluster: "lab".into(), degraded: None, nodes: Vec::new(), jobs, more: 0 }
}

fn press(view: &mut View, keys: &str) {
    for key in keys.chars() {
        assert_eq!(view.key(KeyEvent::from(KeyCode::Char(key))), Deed::None, "{key}");
    }
}

fn ids(view: &View) -> Vec<&str> {
    view.jobs().map(|row| row.cells[0].as_str()).collect()
}

fn jobs() -> Vec<JobView> {
    let job = |id, user: &str, uid| JobView {
        id: gq_model::JobId(id),
        user: user.into(),
        uid: Uid(uid),
        ..plain()
    };
    vec![job(3, "zoe", 1001), job(1, "ann", 1000), job(2, "ben", 1002)]
}

/// A job that is no array.
fn plain() -> JobView {
    JobView { array_job_id: None, array_task_id: None, array_tasks: None, ..waiting() }
}

#[test]
fn keys_sort_reverse_and_choose() {
    let mut view = view(jobs());
    assert_eq!(ids(&view), ["3", "1", "2"], "the order of the queue is gqd's");
    press(&mut view, "s");
    assert_eq!(ids(&view), ["1", "2", "3"]);
    press(&mut view, "r");
    assert_eq!(ids(&view), ["3", "2", "1"]);
    press(&mut view, "m");
    assert_eq!(ids(&view), ["1"]);
    press(&mut view, "mr");
    assert_eq!(ids(&view), ["1", "2", "3"]);
    assert_eq!(view.key(KeyEvent::from(KeyCode::Char(' '))), Deed::Look);
    assert_eq!(view.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Deed::Leave);
    assert_eq!(view.key(KeyEvent::from(KeyCode::Esc)), Deed::Leave);
}

#[test]
fn the_mark_stays_on_its_job_and_within_what_there_is() {
    let mut view = view(jobs());
    press(&mut view, "jj");
    assert_eq!(view.marked, 2);
    press(&mut view, "s");
    assert_eq!(ids(&view)[view.marked], "2");
    let mut fewer = jobs();
    fewer.remove(0);
    view.take(Ok(seen(fewer)));
    assert_eq!(ids(&view)[view.marked], "2");
    press(&mut view, "jjjjG");
    assert_eq!(view.marked, 1);
    press(&mut view, "gkk");
    assert_eq!(view.marked, 0);
    view.take(Ok(seen(Vec::new())));
    press(&mut view, "jG");
    assert_eq!(view.marked, 0);
}

#[test]
fn what_stands_still_is_not_changed_and_a_trouble_is_shown_until_it_is_over() {
    let mut view = view(jobs());
    press(&mut view, "p");
    view.take(Ok(seen(Vec::new())));
    assert_eq!(ids(&view).len(), 3);
    press(&mut view, "p");
    view.take(Err("gqd is away".into()));
    assert!(drawn(&mut view, 80, 8).contains("gqd is away"));
    view.take(Ok(seen(vec![running()])));
    assert!(!drawn(&mut view, 80, 8).contains("gqd is away"));
}

fn drawn(view: &mut View, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| screen::draw(frame, view)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn how_busy_cards_are_is_said_where_somebody_knows() {
    let busy = |cards: &[Option<u8>]| {
        let mut node = house();
        let card = node.cards.remove(0);
        node.cards = cards.iter().map(|busy| gq_proto::CardView { busy: *busy, ..card.clone() }).collect();
        screen::busy_map(&node)
    };
    assert_eq!(
        (busy(&[]), busy(&[None, None])),
        (String::new(), String::new()),
        "an older gqnode says nothing"
    );
    assert_eq!(busy(&[Some(73), None, Some(0)]), "73 - 0");
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    for columns in [1, 2, 10, 79, 300] {
        for rows in [1, 2, 3, 5, 24, 200] {
            let mut view = view((0..50).flat_map(|_| jobs()).collect());
            press(&mut view, "G");
            drawn(&mut view, columns, rows);
            press(&mut view, "?");
            drawn(&mut view, columns, rows);
        }
    }
}

#[test]
fn the_marked_job_is_always_in_sight() {
    let many = (0..200).map(|id| JobView { id: gq_model::JobId(1000 + id), ..plain() }).collect();
    let mut view = view(many);
    for at in 0..200 {
        let screen = drawn(&mut view, 100, 24);
        assert!(screen.contains(&format!("{}", 1000 + at)), "{at}: {screen}");
        press(&mut view, "j");
    }
}
