//! The picture of a part of a run: a lane for each CPU, and below these a lane for each group.

use maud::{Markup, PreEscaped, html};
use tickless_core::hierarchy::{ChildSlot, ChildSlots};

use super::lanes::{Duty, Lanes, Mark, Promise, Span};
use super::state::{Activity, State};
use super::window::Picture;
use crate::{table, units};

const WIDTH: f64 = 992.0;
/// The right end of the lanes' names.
const LEFT: f64 = 84.0;
/// The space right of the axis, for half of the last label.
const RIGHT: f64 = 24.0;
const LANE: f64 = 15.0;
const STEP: f64 = 21.0;
/// The space for the axis.
const TOP: f64 = 26.0;
/// The least width that is drawn by itself: shorter spans share a piece with their neighbours.
const PIECE: f64 = 0.5;
/// The width of a letter.
const LETTER: f64 = 6.6;
/// Colours for migrators.
const COLOURS: u8 = 8;

/// The mapping of times to the picture.
struct Axis {
    from: u64,
    to: u64,
}

impl Axis {
    fn x(&self, at: u64) -> f64 {
        let length = self.to.saturating_sub(self.from).max(1) as f64;
        let part = at.clamp(self.from, self.to) - self.from;
        LEFT + (WIDTH - LEFT - RIGHT) * part as f64 / length
    }

    /// Returns the moments that the axis labels, with their labels: few enough to be distinguished.
    fn ticks(&self) -> Vec<(u64, String)> {
        const MOST: u64 = 9;
        let length = self.to.saturating_sub(self.from).max(1);
        let mut step = 1;
        for factor in [2, 5, 10].into_iter().cycle() {
            if length / step <= MOST {
                break;
            }
            // 1, 2, 5, 10, 20, ...
            step = match factor {
                2 => step * 2,
                5 => step / 2 * 5,
                _ => step * 2,
            };
        }
        let first = self.from.div_ceil(step) * step;
        let all = (0..=MOST + 1).map(|number| first + number * step);
        let inside = all.take_while(|at| *at <= self.to);
        inside.map(|at| (at, moment(at, step))).collect()
    }
}

/// Formats a moment of the run, with as many digits as `step` needs.
fn moment(at: u64, step: u64) -> String {
    let millis = at as f64 / 1e6;
    let decimals = match step {
        1_000_000.. => 0,
        100_000.. => 1,
        10_000.. => 2,
        1_000.. => 3,
        _ => 6,
    };
    format!("{millis:.decimals$} ms")
}

/// Formats the beginning and the end of a span, for a reader who points at the span.
fn range<T>(span: &Span<T>) -> String {
    format!(
        "{} to {}, {}",
        moment(span.from, 100),
        moment(span.to, 100),
        units::nanos((span.to - span.from) as f64)
    )
}

/// Returns the class of an activity, its name, and its rank where only one activity can be shown.
fn kind(activity: &Activity, deep: &[String]) -> (&'static str, String, u8) {
    match activity {
        Activity::Interrupt(name) => ("t-irq", format!("interrupt ({name})"), 6),
        Activity::Soft => ("t-soft", "soft stage".to_owned(), 7),
        Activity::Running(task) => ("t-run", format!("task {task}"), 4),
        Activity::Waking => ("t-wake", "waking up".to_owned(), 5),
        Activity::Choosing => ("t-wake", "going idle".to_owned(), 3),
        Activity::Idle(state) if deep.contains(state) => ("t-deep", format!("idle in {state}"), 1),
        Activity::Idle(state) => ("t-idle", format!("idle in {state}"), 2),
        Activity::Off => ("t-off", "off".to_owned(), 0),
    }
}

/// A piece of a lane: one span, or several spans that are too short to be distinguished.
struct Piece<'l, T> {
    first: &'l Span<T>,
    /// The span that gives the colour.
    shown: &'l Span<T>,
    to: u64,
    spans: usize,
}

/// Merges spans that are too short to be drawn. `rank` decides which span is visible where only one can be shown.
fn pieces<'l, T>(spans: &'l [Span<T>], axis: &Axis, rank: impl Fn(&T) -> u8) -> Vec<Piece<'l, T>> {
    let mut pieces: Vec<Piece<'l, T>> = Vec::new();
    for span in spans {
        let is_narrow = |from, to| axis.x(to) - axis.x(from) < PIECE;
        match pieces.last_mut() {
            Some(last) if is_narrow(last.first.from, last.to) && is_narrow(span.from, span.to) => {
                last.to = span.to;
                last.spans += 1;
                if rank(&span.what) > rank(&last.shown.what) {
                    last.shown = span;
                }
            }
            _ => pieces.push(Piece {
                first: span,
                shown: span,
                to: span.to,
                spans: 1,
            }),
        }
    }
    pieces
}

/// Returns the end of a title for a piece that stands for several spans.
fn others(spans: usize) -> String {
    match spans - 1 {
        0 => String::new(),
        more => format!(" (and {more} more, too short to be drawn)"),
    }
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

fn rectangle(class: &str, (from, to): (f64, f64), top: f64, title: &str) -> Markup {
    html! {
        rect class=(class) x=(number(from)) y=(number(top)) width=(number((to - from).max(PIECE)))
            height=(number(LANE)) { title { (title) } }
    }
}

fn label(text: &str, top: f64) -> Markup {
    html! {
        text class="t-name" x=(number(LEFT - 8.0)) y=(number(top + LANE - 3.5)) text-anchor="end" { (text) }
    }
}

/// Returns the frame: size, axis, and a description for readers who do not see the picture.
fn drawing(axis: &Axis, lanes: usize, about: &str, body: &Markup) -> Markup {
    let height = TOP + STEP * lanes as f64 + 4.0;
    html! {
        svg.timeline role="img" aria-label=(about) viewBox=(format!("0 0 {WIDTH} {height:.0}")) {
            @for (at, text) in axis.ticks() {
                @let x = number(axis.x(at));
                line class="t-grid" x1=(x) x2=(x) y1=(number(TOP - 6.0)) y2=(number(height)) {}
                text class="t-name" x=(x) y=(number(TOP - 10.0)) text-anchor="middle" { (text) }
            }
            (body)
        }
    }
}

fn cpus(picture: &Picture, lanes: &Lanes, axis: &Axis, deep: &[String]) -> Markup {
    let row = |cpu: u32| lanes.cpus.range(..cpu).count() as f64;
    let top = |cpu: u32| TOP + STEP * row(cpu);
    let body = html! {
        @for (cpu, spans) in &lanes.cpus {
            (label(&format!("CPU {cpu}"), top(*cpu)))
            @for piece in pieces(spans, axis, |what| kind(what, deep).2) {
                @let (class, name, _) = kind(&piece.shown.what, deep);
                @let title = format!("CPU {cpu}: {name}, {}{}", range(piece.shown), others(piece.spans));
                (rectangle(class, (axis.x(piece.first.from), axis.x(piece.to)), top(*cpu), &title))
            }
        }
        @for (at, cpu, mark) in marks(lanes, axis) { (marked(axis.x(at), cpu, mark, at, &top, lanes)) }
        @if let Some(latest) = &picture.latest {
            @let x = number(axis.x(latest.at));
            line class="t-here" x1=(x) x2=(x) y1=(number(TOP - 6.0))
                y2=(number(TOP + STEP * lanes.cpus.len() as f64)) {
                title { "The latest timer: " (units::nanos(latest.late as f64)) " late" }
            }
        }
    };
    let about = format!(
        "What {} did",
        units::counted(lanes.cpus.len() as u64, "CPU")
    );
    drawing(axis, lanes.cpus.len(), &about, &body)
}

/// Returns the marks, at most one of each kind at a place.
fn marks(lanes: &Lanes, axis: &Axis) -> Vec<(u64, u32, Mark)> {
    let mut marks = lanes.marks.clone();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most the width of the picture"
    )]
    let place = |at: u64| axis.x(at).round() as i64;
    marks.sort_by_key(|(at, cpu, mark)| (*cpu, *mark, *at));
    marks.dedup_by_key(|(at, cpu, mark)| (*cpu, *mark, place(*at) / 2));
    marks
}

fn marked(
    x: f64,
    cpu: u32,
    mark: Mark,
    at: u64,
    top: &impl Fn(u32) -> f64,
    lanes: &Lanes,
) -> Markup {
    let y = top(cpu);
    let when = moment(at, 100);
    let triangle = |class: &str, title: String| {
        let (base, tip) = (y + LANE + 4.5, y + LANE - 1.5);
        html! {
            path class=(class) d=(format!("M{:.1} {base:.1}h6l-3 {:.1}z", x - 3.0, tip - base)) {
                title { (title) }
            }
        }
    };
    match mark {
        Mark::Own => triangle(
            "t-own",
            format!("CPU {cpu} fires a timer of its own at {when}"),
        ),
        Mark::Remote(of) => triangle(
            "t-remote",
            format!("CPU {cpu} fires a timer of CPU {of} at {when}"),
        ),
        Mark::Sent(to) if lanes.cpus.contains_key(&to) => {
            let middle = LANE / 2.0;
            html! {
                line class="t-ipi" x1=(number(x)) x2=(number(x)) y1=(number(y + middle))
                    y2=(number(top(to) + middle)) {
                    title { "CPU " (cpu) " interrupts CPU " (to) " at " (when) }
                }
                circle class="t-ipi" cx=(number(x)) cy=(number(top(to) + middle)) r="2.2" {}
            }
        }
        Mark::Sent(to) => html! {
            circle class="t-ipi" cx=(number(x)) cy=(number(y + LANE / 2.0)) r="2.2" {
                title { "CPU " (cpu) " interrupts CPU " (to) ", which is not drawn, at " (when) }
            }
        },
    }
}

fn child(state: &State, group: usize, slot: ChildSlot) -> String {
    let is_it = |place: Option<(usize, ChildSlot)>| place == Some((group, slot));
    if let Some(cpu) = state.cpus.iter().position(|cpu| is_it(cpu.leaf)) {
        return format!("CPU {cpu}");
    }
    let below = state.groups.iter().position(|one| is_it(one.parent));
    below.map_or_else(|| "no child".to_owned(), |below| format!("group {below}"))
}

fn children(state: &State, group: usize, slots: ChildSlots) -> String {
    let names: Vec<String> = slots.map(|slot| child(state, group, slot)).collect();
    names.join(", ")
}

/// Draws the lanes of the groups, and the promises of the CPUs.
fn hierarchy(state: &State, lanes: &Lanes, axis: &Axis) -> Markup {
    let top = |row: usize| TOP + STEP * row as f64;
    let rows = promisers(lanes);
    let body = html! {
        @for (row, (group, spans)) in lanes.groups.iter().enumerate() {
            @let is_root = state.groups[*group].parent.is_none();
            (label(&if is_root { format!("root, {group}") } else { format!("group {group}") }, top(row)))
            @let pieces = pieces(spans, axis, |(migrator, _)| u8::from(migrator.is_some()));
            @for piece in &pieces { (duty(state, *group, piece, axis, top(row))) }
            @for (from, to, migrator) in terms(&pieces, axis) {
                @let name = child(state, *group, migrator);
                @if to - from > LETTER * name.len() as f64 + 8.0 {
                    text class="t-in" x=(number(from + 4.0)) y=(number(top(row) + LANE - 3.5)) { (name) }
                }
            }
        }
        @for (row, cpu) in rows.iter().enumerate() {
            @let top = top(lanes.groups.len() + row);
            (label(&format!("by CPU {cpu}"), top))
            @for span in lanes.promises.iter().filter(|span| span.what.cpu == *cpu) {
                (promise(span, axis, top))
            }
        }
    };
    let lanes = lanes.groups.len() + rows.len();
    drawing(
        axis,
        lanes,
        "Which CPU looks after which in the hierarchy",
        &body,
    )
}

/// Draws the state of a group for a piece of time.
fn duty(state: &State, group: usize, piece: &Piece<'_, Duty>, axis: &Axis, top: f64) -> Markup {
    let (migrator, active) = piece.shown.what;
    let (from, to) = (axis.x(piece.first.from), axis.x(piece.to));
    let when = format!("{}{}", range(piece.shown), others(piece.spans));
    let Some(migrator) = migrator else {
        let title = format!("group {group}: all CPUs sleep, {when}");
        return rectangle("t-deep", (from, to), top, &title);
    };
    let name = child(state, group, migrator);
    let title = format!(
        "group {group}: {name} is migrator, active are {}, {when}",
        children(state, group, active)
    );
    let class = format!("t-m{}", migrator.number() % COLOURS);
    rectangle(&class, (from, to), top, &title)
}

/// Returns the terms of each migrator, no matter which children were active meanwhile.
fn terms(pieces: &[Piece<'_, Duty>], axis: &Axis) -> Vec<(f64, f64, ChildSlot)> {
    let mut terms: Vec<(f64, f64, ChildSlot)> = Vec::new();
    let mut before = None;
    for piece in pieces {
        let (migrator, _) = piece.shown.what;
        let to = axis.x(piece.to);
        match (migrator, terms.last_mut()) {
            (Some(_), Some(last)) if before == migrator => last.1 = to,
            (Some(now), _) => terms.push((axis.x(piece.first.from), to, now)),
            (None, _) => {}
        }
        before = migrator;
    }
    terms
}

fn promisers(lanes: &Lanes) -> Vec<u32> {
    let mut cpus: Vec<u32> = lanes.promises.iter().map(|span| span.what.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Draws a promise: a bar while it stands, and a diamond at the promised time.
fn promise(span: &Span<Promise>, axis: &Axis, top: f64) -> Markup {
    let Promise { cpu, wakeup } = span.what;
    let (from, to) = (
        axis.x(span.from),
        axis.x(span.to).max(axis.x(span.from) + PIECE),
    );
    let middle = top + LANE / 2.0;
    let title = format!(
        "CPU {cpu} has promised to wake up for all at {}, {}",
        moment(wakeup, 100),
        range(span)
    );
    let is_inside = (axis.from..=axis.to).contains(&wakeup);
    html! {
        rect class="t-promise" x=(number(from)) y=(number(middle - 2.5)) width=(number(to - from)) height="5" {
            title { (title) }
        }
        @if is_inside {
            @let at = axis.x(wakeup);
            path class="t-when" d=(format!("M{:.1} {middle:.1}l4.5 -4.5l4.5 4.5l-4.5 4.5z", at - 4.5)) {
                title { (title) }
            }
        }
    }
}

/// Returns the whole section; `deep` has the names of deep idle states.
pub(in crate::sim) fn section(picture: &Picture, deep: &[String]) -> Markup {
    let lanes = Lanes::of(picture);
    let axis = Axis {
        from: picture.from,
        to: picture.to,
    };
    let mut state = picture.state.clone();
    picture
        .records
        .iter()
        .for_each(|record| state.apply(record));
    let part = format!(
        "{} to {}",
        moment(picture.from, 1_000),
        moment(picture.to, 1_000)
    );
    html! {
        h2 { "What happened from " (part) }
        p { (about(picture, &lanes)) }
        p.legend.keys {
            span.t-run { "task" } span.t-irq { "interrupt" } span.t-soft { "soft stage" }
            span.t-wake { "waking up, going idle" } span.t-idle { "idle" } span.t-deep { "deep idle" }
            span.t-own { "fires its own timer" } span.t-remote { "fires another one's" }
            span.t-ipi { "interrupts another" }
        }
        figure { div.wide.many tabindex="0" role="region" aria-label="Picture, which scrolls sideways" {
                (cpus(picture, &lanes, &axis, deep)) }
            figcaption { "Each CPU. Point at something to read what it is, and from when to when. What is too short to \
                be seen alone is drawn together, and shows what is most rare." }
            details { summary { "The same as a table" } (spans(&lanes, deep)) } }
        @if !lanes.groups.is_empty() {
            h3 { "Which CPU looked after which" }
            figure { div.wide.many tabindex="0" role="region" aria-label="Picture, which scrolls sideways" {
                    (hierarchy(&state, &lanes, &axis)) }
                figcaption { "Each group of the hierarchy, the highest first, in the colour of its migrator: the child \
                    that looks after the timers of those that sleep. Grey: all of it sleeps. Below, the CPUs that \
                    promised to wake up for all: a bar for as long as the promise stood, a diamond where the promised \
                    time is on the picture." } }
        }
    }
}

/// Lists the spans that a reader sees by pointing at the lanes, for readers without a pointer.
fn spans(lanes: &Lanes, deep: &[String]) -> Markup {
    /// The largest number of rows, more than any reader reads.
    const MOST: usize = 500;
    let all = lanes.cpus.iter().flat_map(|(cpu, spans)| {
        spans.iter().map(move |span| {
            vec![
                format!("CPU {cpu}"),
                kind(&span.what, deep).1,
                moment(span.from, 100),
                moment(span.to, 100),
                units::nanos((span.to - span.from) as f64),
            ]
        })
    });
    let mut rows: Vec<Vec<String>> = all.take(MOST + 1).collect();
    let is_cut = rows.len() > MOST;
    rows.truncate(MOST);
    html! {
        (table::html(&["CPU", "does", "from", "to", "for"], 2, &rows))
        @if is_cut { p.note { "The first " (MOST) " only; a shorter part has fewer." } }
    }
}

fn about(picture: &Picture, lanes: &Lanes) -> Markup {
    let all = picture.state.cpus.len();
    html! {
        @if let Some(latest) = &picture.latest {
            "Around the latest timer, which fired " b { (units::nanos(latest.late as f64)) }
            " late on CPU " (latest.cpu)
            @if latest.cpu != latest.of_cpu { ", and was one of CPU " (latest.of_cpu) }
            ". "
        }
        @if lanes.cpus.len() < all {
            (lanes.cpus.len()) " of " (units::counted(all as u64, "CPU"))
            @if picture.latest.is_some() {
                ": the groups of those whom it is about, and of those that did most. "
            } @else { ": the groups of those that did most. " }
        }
        "Another part: " code.option { "--timeline-from" } ", " code.option { "--timeline-for" } "."
    }
}

/// The style sheet of the picture, in the colours of the page.
pub(in crate::sim) const STYLE_SHEET: PreEscaped<&str> = PreEscaped(include_str!("timeline.css"));
