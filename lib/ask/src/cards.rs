//! Cards: `--gpus --gpus-per-node --gpus-per-task --gres --gpu-mem`, read and brought together to one wish.

use crate::{
    AskError, Place, Problem,
    said::{Said, Wishes},
    values::{is_unprintable, number},
};
use gq_model::CardAsk;

/// Cards as one option asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CardWord {
    /// How many; 0 means none.
    pub count: u32,
    /// The model, when named.
    pub model: Option<String>,
}

const NO_CARDS: CardWord = CardWord { count: 0, model: None };
const WHAT: &str = "a number of cards, MODEL or MODEL:NUMBER, such as 2, a100 or a100:2";
const GRES: &str = "gpu[:MODEL][:NUMBER], such as gpu:2 or gpu:a100:2";

/// `N`, `MODEL:N` or `MODEL`.
pub(crate) fn cards(text: &str) -> Result<CardWord, Problem> {
    word(text, WHAT)
}

/// `gpu[:MODEL][:N]`, or `none`.
pub(crate) fn gres(text: &str) -> Result<CardWord, Problem> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(NO_CARDS);
    }
    if text.contains(',') {
        return Err(Problem::NotBuilt("--gres with more than one resource".into()));
    }
    let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
    match (kind, rest) {
        ("gpu", None) => Ok(CardWord { count: 1, model: None }),
        ("gpu", Some(rest)) => word(rest, GRES),
        _ => Err(Problem::Other("the only resource of this kind here is gpu: gpu[:MODEL][:NUMBER]")),
    }
}

fn word(text: &str, what: &'static str) -> Result<CardWord, Problem> {
    if text.contains(',') {
        return Err(Problem::NotBuilt("a request for cards of more than one model".into()));
    }
    let word = match text.split_once(':') {
        Some((model, count)) => {
            CardWord { count: number(count, what)?, model: Some(self::model(model, what)?) }
        }
        None if text.bytes().all(|b| b.is_ascii_digit()) => {
            CardWord { count: number(text, what)?, model: None }
        }
        None if text.bytes().any(|b| b.is_ascii_alphabetic()) => {
            CardWord { count: 1, model: Some(model(text, what)?) }
        }
        None => return Err(Problem::Expected(what)),
    };
    Ok(if word.count == 0 { NO_CARDS } else { word })
}

fn model(text: &str, what: &'static str) -> Result<String, Problem> {
    if is_profile(text) {
        return Err(Problem::NotBuilt(format!("{text}: asking for slices of cards")));
    }
    let starts = text.starts_with(|c: char| c.is_alphanumeric());
    if !starts || text.len() > 256 || text.contains(':') || text.chars().any(is_unprintable) {
        return Err(Problem::Expected(what));
    }
    Ok(text.to_owned())
}

/// Whether a text is a MIG profile, such as `1g.10gb`, `1c.2g.20gb` or `1g.10gb+me`.
fn is_profile(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.split('.').collect::<Vec<_>>().windows(2).any(|pair| {
        let [slice, memory] = pair else { return false };
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let memory = memory.split('+').next().unwrap_or_default();
        slice.strip_suffix('g').is_some_and(digits) && memory.strip_suffix("gb").is_some_and(digits)
    })
}

/// The cards that all words together ask for, with the numbers per node and per task when those were said.
pub(crate) struct CardWish {
    pub ask: CardAsk,
    pub per_node: Option<u32>,
    pub per_task: Option<u32>,
}

/// Brings the words together: those of the highest place count and must agree; `--gpu-mem` says more about the same cards.
pub(crate) fn together(wishes: &Wishes, tasks: u32) -> Result<CardWish, AskError> {
    let ways =
        [(&wishes.gpus, 1), (&wishes.gpus_per_node, 1), (&wishes.gres, 1), (&wishes.gpus_per_task, tasks)];
    let ways = ways.into_iter().filter_map(|(way, times)| way.as_ref().map(|said| (said, times)));
    let top = ways.clone().map(|(said, _)| said.place.rank()).max().unwrap_or(0);
    let mut first: Option<(&Said<CardWord>, CardWord)> = None;
    for (said, times) in ways.filter(|(said, _)| !said.is_below(top)) {
        let count = said.value.count.checked_mul(times).ok_or_else(|| {
            AskError::new(&said.place, &said.shown, Problem::Other("more cards than can be counted"))
        })?;
        let mut word = CardWord { count, model: said.value.model.clone() };
        if let Some((other, sum)) = &first {
            if !agree(sum, &word) {
                return Err(contradiction(said, count, other, sum.count));
            }
            word.model = sum.model.clone().or(word.model);
        }
        first = Some((first.map_or(said, |(said, _)| said), word));
    }
    let (mut ask, counted) = match first {
        None => (CardAsk::default(), None),
        Some((said, word)) => {
            (CardAsk { count: word.count, model: word.model, ..CardAsk::default() }, Some(said))
        }
    };
    if let Some(memory) = &wishes.gpu_mem {
        match counted {
            None => ask.count = 1,
            Some(none) if ask.count == 0 && none.place.rank() == memory.place.rank() => {
                let other = with_place(&none.shown, &none.place);
                return Err(AskError::new(&memory.place, &memory.shown, Problem::Contradicts(other)));
            }
            Some(none) if ask.count == 0 && none.is_below(memory.place.rank()) => ask.count = 1,
            Some(_) => {}
        }
        if ask.count > 0 {
            ask.memory = Some(memory.value);
        }
    }
    let kept = |way: &Option<Said<CardWord>>| {
        way.as_ref().filter(|said| !said.is_below(top) && ask.count > 0).map(|said| said.value.count)
    };
    let (per_node, per_task) = (kept(&wishes.gpus_per_node), kept(&wishes.gpus_per_task));
    Ok(CardWish { ask, per_node, per_task })
}

fn agree(a: &CardWord, b: &CardWord) -> bool {
    let same_model = match (&a.model, &b.model) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        _ => true,
    };
    a.count == b.count && (same_model || a.count == 0)
}

fn contradiction(said: &Said<CardWord>, count: u32, other: &Said<CardWord>, other_count: u32) -> AskError {
    let problem = Problem::Contradicts(with_place(&other.shown, &other.place));
    AskError::new(&said.place, &said.shown, problem).hint(if count == other_count {
        "name one model".to_owned()
    } else {
        format!("say it once: --gpus={count} or --gpus={other_count} (all cards of the job)")
    })
}

/// An option with where it stands, when that is not the command line.
pub(crate) fn with_place(shown: &str, place: &Place) -> String {
    match place {
        Place::Script { line, .. } => format!("{shown} in line {line}"),
        Place::Environment | Place::CommandLine => shown.to_owned(),
    }
}
