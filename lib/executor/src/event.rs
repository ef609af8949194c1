//! What the threads of `gqnode` tell its one deciding thread. They decide nothing themselves.

use crate::{fitting::Misfit, link::Out};
use crossbeam_channel::Sender;
use gq_gpu::{Look, Used};
use gq_host::Account;
use gq_model::{Beat, CardUse, CardUsed, RunKey, Seq, Timestamp, Uid};
use gq_proto::{CardNow, Head, Order};
use std::io;

/// Most events that wait for the deciding thread; the threads then wait for it.
pub const MAX_EVENTS: usize = 1024;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// Somebody appended to the log.
    Log,
    /// The supervisor watched under this number has died.
    Gone(u64),
    /// The processes of a run were swept; so many were left.
    Swept(RunKey, u32),
    /// The driver is being asked.
    Looking,
    /// The cards were looked at.
    Looked(Look),
    /// The memory of the cards that are shared was looked at.
    Used(Vec<Used>),
    /// The cards of these runs are idle since then, or not any more.
    Idle(Vec<(RunKey, Option<Timestamp>)>),
    /// What the cards do now.
    CardsNow(Vec<CardNow>),
    /// The cards of a run are there, slices with their UUIDs; or why not.
    Fitted(RunKey, Result<Vec<CardUse>, Misfit>),
    /// The cards of a run that has ended were looked at; whoever uses them still was waited for. With what it used of them.
    Vacated(RunKey, Vec<CardUsed>),
    /// The driver is asked nothing at present.
    Rests,
    /// A uid was looked up: its account, if it has one, or why nobody knows.
    Account(Uid, io::Result<Option<Account>>),
    /// The link wants to know what to say of this node.
    HeadWanted(Sender<Head>),
    /// The link tried to come up, for the first time or again, and did not.
    NotLinked,
    /// The link is up, and letters go out through it. The controller's head tells in `ack_epoch` of the last life that it has heard of.
    Linked(u64, Out, Head),
    /// The controller's head was read again.
    Head(u64, Head),
    /// Letters came: orders; and, if that was said, how far the reports were taken and which sign of life was seen last.
    Letters(u64, Option<(Seq, Beat)>, Vec<Order>),
    /// The link is down.
    Unlinked(u64),
}
