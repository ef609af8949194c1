//! A whole simulation: log and world in, answer out; the files that were asked for are written on the way.

use crate::{
    baseline,
    drive::{Driven, drive},
    dump,
    fill::{Dice, draw},
    metrics::{Capacity, Fate, measure},
    options::{Options, PlacementAsk, PolicyAsk},
    outputs, picture,
    read::{self, Format},
    report::{Passes, Report},
    request::cut,
    trace::{Reading, Trace, TraceJob, WHOLE},
    trouble::{Trouble, say},
    watch::{Watch, idle, wish_of},
    world::World,
};
use gq_model::Grid;
use std::time::{Duration, Instant};

/// Most refusals that are told.
const MAX_TOLD: usize = 5;

/// Runs a simulation; returns what is to be printed.
///
/// # Errors
/// When a file cannot be read or written, or does not say what it should.
pub(crate) fn run(options: &Options) -> Result<String, Trouble> {
    [&options.dump, &options.picture].into_iter().flatten().try_for_each(|path| outputs::check(path))?;
    let widest = match options.machine {
        crate::options::Machine::Pool(procs) => Some(procs),
        crate::options::Machine::Nodes(_) | crate::options::Machine::Conf(_) => None,
    };
    let reading = Reading { strict: options.strict, first: options.first, widest };
    let (format, mut trace) = read::read(&options.log, options.format, reading)?;
    tell_malformed(&trace);
    let world = World::of(options, &mut trace.names)?;
    if let Some(grid) = grid(&world) {
        cut(&mut trace, grid);
    }
    hasten(&mut trace, options.load);
    let capacity = capacity(&world);
    if let Some(factor) = options.fill {
        trace.jobs = filling(&trace, factor, capacity, options)?;
    }
    let began = Instant::now();
    let driven = match (options.placement, options.fill) {
        (PlacementAsk::Frag, _) | (_, None) => drive(&world, &trace, options.fill.is_some())?,
        (rule, Some(_)) => place_plainly(&world, &trace, rule, options.seed),
    };
    let wall = began.elapsed();
    tell_refused(&driven);
    if let Some(path) = &options.dump {
        dump::write(path, &trace.jobs, &driven.fates)?;
    }
    let mut report = Report {
        log: options.log.display().to_string(),
        format: format.name(),
        policy: policy_words(options.policy),
        placement: options.placement.name(),
        seed: options.seed,
        cpus: capacity.cpus,
        cards: capacity.milli / u64::from(WHOLE),
        metrics: measure(&trace, &driven.fates, capacity),
        card_figures: driven.cards.clone(),
        passes: passes(driven.passes, wall, trace.jobs.len()),
        ..Report::default()
    };
    report.note(&trace.notes);
    report.taken_as.extend(world.taken_as.iter().cloned());
    if format == Format::Philly && capacity.milli == 0 {
        report.taken_as.push("a card of the log is a processor of the machine".to_owned());
    }
    if let Some(path) = &options.picture {
        let title = format!("{}, policy {}", report.log, report.policy);
        picture::write(path, &title, &trace.jobs, &driven.fates, capacity)?;
    }
    if options.json {
        let json = serde_json::to_string(&report).map_err(|e| Trouble::usage(e.to_string()))?;
        return Ok(json + "\n");
    }
    report.taken_as.iter().for_each(|words| say(words));
    Ok(report.text())
}

/// The jobs that fill the machine.
fn filling(
    trace: &Trace,
    factor: f64,
    capacity: Capacity,
    options: &Options,
) -> Result<Vec<TraceJob>, Trouble> {
    let milli = (capacity.milli as f64 * factor) as u64;
    let jobs = draw(trace, milli, options.seed);
    if jobs.is_empty() || milli == 0 {
        let text = format!("--fill: {} asks for no cards, or the machine has none", options.log.display());
        return Err(Trouble::usage(text).hint("a log of cards, with --nodes or --conf"));
    }
    Ok(jobs)
}

/// Places all jobs by a plain rule, without the engine.
fn place_plainly(world: &World, trace: &Trace, rule: PlacementAsk, seed: u64) -> Driven {
    let mut nodes = idle(&world.nodes);
    let mut dice = Dice::new(seed);
    let mut watch = Watch::over(trace, &world.nodes, true);
    let mut driven = Driven::default();
    for job in &trace.jobs {
        let began = Instant::now();
        let fitted = baseline::place(&mut nodes, &wish_of(job, &trace.names), rule, &mut dice);
        driven.passes.push(began.elapsed());
        let start = fitted.then_some(job.submit);
        driven.fates.push(Fate { start, end: start.map(|at| at.saturating_add(job.run)), ..Fate::default() });
        if let Some(watch) = watch.as_mut()
            && watch.arrive(job)
        {
            watch.look(&nodes);
        }
    }
    driven.cards = watch.map(|watch| watch.end(&nodes));
    driven
}

/// Lets jobs arrive faster by a factor; the first one stays where it is.
fn hasten(trace: &mut Trace, factor: f64) {
    if factor == 1.0 {
        return;
    }
    let first = trace.jobs.iter().map(|job| job.submit).min().unwrap_or_default();
    for job in &mut trace.jobs {
        job.submit = first.saturating_add(((job.submit.saturating_sub(first)) as f64 / factor) as i64);
    }
}

fn capacity(world: &World) -> Capacity {
    let cards: usize = world.nodes.iter().map(|node| node.cards.len()).sum();
    Capacity {
        cpus: world.nodes.iter().map(|node| u64::from(node.cpus)).sum(),
        milli: cards as u64 * u64::from(WHOLE),
    }
}

/// What the cards can be cut into, when all of them are in MIG mode and alike.
fn grid(world: &World) -> Option<&Grid> {
    let mut grids = world.nodes.iter().flat_map(|node| &node.cards).map(|card| card.grid.as_ref());
    let first = grids.next()??;
    grids.all(|grid| grid == Some(first)).then_some(first)
}

fn policy_words(policy: PolicyAsk) -> String {
    match policy {
        PolicyAsk::Default => "default".to_owned(),
        PolicyAsk::Fcfs => "fcfs".to_owned(),
        PolicyAsk::Greedy => "greedy".to_owned(),
        PolicyAsk::Easy => "easy".to_owned(),
        PolicyAsk::Conservative => "conservative".to_owned(),
        PolicyAsk::Depth(n) => n.to_string(),
    }
}

fn passes(mut passes: Vec<Duration>, wall: Duration, jobs: usize) -> Passes {
    passes.sort_unstable();
    let rank = |percent: usize| {
        let place = (passes.len() * percent).div_ceil(100).saturating_sub(1);
        passes.get(place).map_or(0.0, |pass| pass.as_secs_f64() * 1e6)
    };
    let (all, planning) = (wall.as_secs_f64(), passes.iter().sum::<Duration>().as_secs_f64());
    let rate = |seconds: f64| if seconds > 0.0 { jobs as f64 / seconds } else { 0.0 };
    Passes {
        count: passes.len() as u64,
        p50_us: rank(50),
        p99_us: rank(99),
        max_us: rank(100),
        planning_s: planning,
        wall_s: all,
        planned_jobs_per_s: rate(planning),
        jobs_per_s: rate(all),
    }
}

fn tell_malformed(trace: &Trace) {
    let notes = &trace.notes;
    notes.kept.iter().for_each(|line| say(&line.to_string()));
    if notes.malformed > notes.kept.len() as u64 {
        say(&format!("{} lines do not parse", notes.malformed));
    }
}

fn tell_refused(driven: &Driven) {
    for (text, count) in driven.refusals.iter().take(MAX_TOLD) {
        say(&format!("{count} jobs refused: {text}"));
    }
    if let Some(more) = driven.refusals.get(MAX_TOLD..).filter(|more| !more.is_empty()) {
        say(&format!("{} jobs refused for other reasons", more.iter().map(|(_, count)| count).sum::<u64>()));
    }
}
