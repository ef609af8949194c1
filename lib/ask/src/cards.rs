//! Cards, slices and shares: `--gpus --gpus-per-node --gpus-per-task --gres --slice --gpu-mem --gpu-share`, read and brought
//! together to one wish.

use crate::{
    AskError, Place, Problem,
    said::{Said, Wishes},
    values::{is_unprintable, number},
};
use gq_model::{CardAsk, MiB, profile_memory};

/// Cards or slices as one option asks for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CardWord {
    /// How many; 0 means none, and then nothing else is said.
    pub count: u32,
    /// The model, when named.
    pub model: Option<String>,
    /// The profile in lower case, when slices are meant.
    pub profile: Option<String>,
}

const WHAT: &str = "a number of cards, MODEL or MODEL:NUMBER, such as 2, a100 or a100:2";
const GRES: &str = "gpu[:MODEL][:NUMBER], such as gpu:2 or gpu:a100:2";
const SLICE: &str = "a profile of slices, and how many: 1g.10gb or 1g.10gb:2";

/// `N`, `MODEL:N` or `MODEL`; a profile may stand for the model.
pub(crate) fn cards(text: &str) -> Result<CardWord, Problem> {
    word(text, WHAT)
}

/// `gpu[:MODEL][:N]`, or `none`; a profile may stand for the model.
pub(crate) fn gres(text: &str) -> Result<CardWord, Problem> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(CardWord::default());
    }
    if text.contains(',') {
        return Err(Problem::NotBuilt("--gres with more than one resource".into()));
    }
    let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
    match (kind, rest) {
        ("gpu", None) => Ok(CardWord { count: 1, ..CardWord::default() }),
        ("gpu", Some(rest)) => word(rest, GRES),
        ("shard", _) => Err(Problem::Other(
            "a card is shared by memory here: --gpu-share=SIZE in place of a number of shards",
        )),
        _ => Err(Problem::Other("the only resource of this kind here is gpu: gpu[:MODEL][:NUMBER]")),
    }
}

/// `PROFILE[:N]`.
pub(crate) fn slices(text: &str) -> Result<CardWord, Problem> {
    if text.contains(',') {
        return Err(Problem::NotBuilt("--slice with more than one profile".into()));
    }
    let (profile, count) = text.split_once(':').unwrap_or((text, "1"));
    if profile_memory(profile).is_none() {
        return Err(Problem::Expected(SLICE));
    }
    match number(count, SLICE)? {
        0 => Err(Problem::Expected(SLICE)),
        count => Ok(CardWord { count, model: None, profile: Some(profile.to_ascii_lowercase()) }),
    }
}

fn word(text: &str, what: &'static str) -> Result<CardWord, Problem> {
    if text.contains(',') {
        return Err(Problem::NotBuilt("a request for cards of more than one model".into()));
    }
    let word = match text.split_once(':') {
        Some((kind, count)) => CardWord { count: number(count, what)?, ..self::kind(kind, what)? },
        None if text.bytes().all(|b| b.is_ascii_digit()) => {
            CardWord { count: number(text, what)?, ..CardWord::default() }
        }
        None if text.bytes().any(|b| b.is_ascii_alphabetic()) => kind(text, what)?,
        None => return Err(Problem::Expected(what)),
    };
    Ok(if word.count == 0 { CardWord::default() } else { word })
}

/// One card of the model that `text` names, or one slice of the profile.
fn kind(text: &str, what: &'static str) -> Result<CardWord, Problem> {
    if profile_memory(text).is_some() {
        return Ok(CardWord { count: 1, model: None, profile: Some(text.to_ascii_lowercase()) });
    }
    if is_meant_as_profile(text) {
        return Err(Problem::Expected(SLICE));
    }
    let starts = text.starts_with(|c: char| c.is_alphanumeric());
    if !starts || text.len() > 256 || text.contains(':') || text.chars().any(is_unprintable) {
        return Err(Problem::Expected(what));
    }
    Ok(CardWord { count: 1, model: Some(text.to_owned()), profile: None })
}

/// Whether a text that is no profile looks like a mistyped one: `9z.1gb`, `0g.10gb`, `1g.10gb+`.
fn is_meant_as_profile(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let plain = text.split(['+', '-']).next().unwrap_or_default();
    let memory = plain.rsplit_once('.').and_then(|(_, memory)| memory.strip_suffix("gb"));
    memory.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// The cards that all words together ask for, with the numbers per node and per task when those were said.
pub(crate) struct CardWish {
    pub ask: CardAsk,
    pub per_node: Option<u32>,
    pub per_task: Option<u32>,
}

/// Brings the words together: those of the highest place count and must agree; `--gpu-mem` says more about the same cards, and
/// `--gpu-share` makes one of them a share.
pub(crate) fn together(wishes: &Wishes, tasks: u32) -> Result<CardWish, AskError> {
    let ways = [
        (&wishes.gpus, 1),
        (&wishes.gpus_per_node, 1),
        (&wishes.gres, 1),
        (&wishes.gpus_per_task, tasks),
        (&wishes.slice, 1),
    ];
    let ways = ways.into_iter().filter_map(|(way, times)| way.as_ref().map(|said| (said, times)));
    let top = ways.clone().map(|(said, _)| said.place.rank()).max().unwrap_or(0);
    let mut first: Option<(&Said<CardWord>, CardWord)> = None;
    for (said, times) in ways.filter(|(said, _)| !said.is_below(top)) {
        let count = said.value.count.checked_mul(times).ok_or_else(|| {
            AskError::new(&said.place, &said.shown, Problem::Other("more cards than can be counted"))
        })?;
        let mut word = CardWord { count, ..said.value.clone() };
        if let Some((other, sum)) = &first {
            if !agree(sum, &word) {
                return Err(contradiction((said, &word), (other, sum)));
            }
            word.model = sum.model.clone().or(word.model);
        }
        first = Some((first.map_or(said, |(said, _)| said), word));
    }
    let (ask, counted) = match first {
        None => (CardAsk::default(), None),
        Some((said, CardWord { count, model, profile })) => {
            (CardAsk { count, model, profile, memory: None, share: None }, Some(said))
        }
    };
    let ask = match &wishes.gpu_share {
        Some(share) if is_share(&ask, share, counted, wishes.gpu_mem.as_ref())? => {
            CardAsk { count: 1, share: Some(share.value), model: ask.model, profile: None, memory: None }
        }
        _ => match &wishes.gpu_mem {
            Some(memory) => of_memory(ask, memory, counted)?,
            None => ask,
        },
    };
    let kept = |way: &Option<Said<CardWord>>| {
        way.as_ref().filter(|said| !said.is_below(top) && ask.count > 0).map(|said| said.value.count)
    };
    let (per_node, per_task) = (kept(&wishes.gpus_per_node), kept(&wishes.gpus_per_task));
    Ok(CardWish { ask, per_node, per_task })
}

/// Adds `--gpu-mem` to what is asked for by `counted`. Said at a higher place, it replaces a profile or a wish for none;
/// at the same place it contradicts them, and at a lower one a profile replaces it.
fn of_memory(
    mut ask: CardAsk,
    memory: &Said<MiB>,
    counted: Option<&Said<CardWord>>,
) -> Result<CardAsk, AskError> {
    let rank = memory.place.rank();
    match counted {
        None => ask.count = 1,
        Some(said) if said.place.rank() == rank && (ask.count == 0 || ask.profile.is_some()) => {
            let problem = Problem::Contradicts(with_place(&said.shown, &said.place));
            let error = AskError::new(&memory.place, &memory.shown, problem);
            return Err(if ask.count == 0 { error } else { error.hint("one of the two") });
        }
        Some(said) if said.is_below(rank) => {
            ask.count = ask.count.max(1);
            ask.profile = None;
        }
        Some(_) => {}
    }
    if ask.count > 0 && ask.profile.is_none() {
        ask.memory = Some(memory.value);
    }
    Ok(ask)
}

/// Whether `--gpu-share` counts: not when cards, slices or their memory are asked for at a higher place. At the same place it goes with
/// one whole card, whose model may be named, and contradicts all else.
fn is_share(
    ask: &CardAsk,
    share: &Said<MiB>,
    counted: Option<&Said<CardWord>>,
    memory: Option<&Said<MiB>>,
) -> Result<bool, AskError> {
    let rank = share.place.rank();
    let contradicts = |shown: &str, place: &Place| {
        let problem = Problem::Contradicts(with_place(shown, place));
        AskError::new(&share.place, &share.shown, problem).hint("a share is some memory of one card")
    };
    match (counted, memory) {
        (Some(said), _) if said.place.rank() == rank && (ask.count != 1 || ask.profile.is_some()) => {
            Err(contradicts(&said.shown, &said.place))
        }
        (_, Some(said)) if said.place.rank() == rank => Err(contradicts(&said.shown, &said.place)),
        (counted, memory) => Ok(counted.is_none_or(|said| said.place.rank() <= rank)
            && memory.is_none_or(|said| said.place.rank() <= rank)),
    }
}

fn agree(a: &CardWord, b: &CardWord) -> bool {
    let same_model = match (&a.model, &b.model) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        _ => true,
    };
    a.count == b.count && a.profile == b.profile && (same_model || a.count == 0)
}

/// What `said` asks for is not what `other` asks for; each with its count for the whole job.
fn contradiction(
    (said, word): (&Said<CardWord>, &CardWord),
    (other, sum): (&Said<CardWord>, &CardWord),
) -> AskError {
    let problem = Problem::Contradicts(with_place(&other.shown, &other.place));
    AskError::new(&said.place, &said.shown, problem).hint(match (&word.profile, &sum.profile) {
        (Some(a), Some(b)) if a != b => "name one profile".to_owned(),
        (Some(profile), Some(_)) => {
            format!("say it once: --slice={profile}:{} or --slice={profile}:{}", word.count, sum.count)
        }
        (Some(_), None) | (None, Some(_)) => "whole cards or slices: one of the two".to_owned(),
        (None, None) if word.count == sum.count => "name one model".to_owned(),
        (None, None) => {
            format!("say it once: --gpus={} or --gpus={} (all cards of the job)", word.count, sum.count)
        }
    })
}

/// An option with where it stands, when that is not the command line.
pub(crate) fn with_place(shown: &str, place: &Place) -> String {
    match place {
        Place::Script { line, .. } => format!("{shown} in line {line}"),
        Place::Environment | Place::CommandLine => shown.to_owned(),
    }
}
