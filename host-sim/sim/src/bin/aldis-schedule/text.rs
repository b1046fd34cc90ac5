//! The schedule as text: a line a rank, a column a round, messages as arrows between the lines.

use core::fmt::Write;

use aldis_coll::schedule::{Instance, Step};

use crate::study::Study;

/// The most ranks and rounds that are drawn.
const RANKS_MAX: u32 = 64;
const ROUNDS_MAX: u32 = 256;

/// The picture of a round.
#[derive(Debug, PartialEq, Eq)]
struct Column {
    title: String,
    bytes: String,
    /// A line for each rank, all of one length.
    lines: Vec<String>,
}

/// The sender and the receiver of a message.
type Arrow = (u32, u32);

/// The picture, in as many panels one below the other as a width needs; what there is to say where
/// there is none.
pub(crate) fn draw(study: &Study, width: u16) -> String {
    let (run, segment) = (&study.run, study.plan.segment);
    let instance = |rank| Instance::new(rank, run.size, run.root, segment).ok();
    let rounds = instance(0).map_or(0, |first| run.algorithm.rounds(&first));
    if run.size > RANKS_MAX || rounds > ROUNDS_MAX {
        return format!("no picture of more than {RANKS_MAX} ranks or {ROUNDS_MAX} rounds; see --svg\n");
    }
    let columns: Vec<Column> = (0..rounds)
        .map(|round| {
            let steps = |rank: u32| {
                let instance = instance(rank);
                (0..).map_while(move |index| run.algorithm.step(instance.as_ref()?, round, index))
            };
            column(round, run.size, u64::from(run.element_bytes), steps)
        })
        .collect();
    panels(&columns, run.size, width.into())
}

/// A round, by the steps of each rank.
fn column<S: Iterator<Item = Step>>(
    round: u32,
    size: u32,
    element_bytes: u64,
    steps: impl Fn(u32) -> S,
) -> Column {
    let (mut arrows, mut lens, mut local) = (Vec::<Arrow>::new(), Vec::new(), vec!['─'; size as usize]);
    for (rank, mark) in (0..size).zip(&mut local) {
        for step in steps(rank) {
            match step {
                Step::Send { to, from } => {
                    arrows.push((rank, to));
                    lens.push(from.len as u64 * element_bytes);
                }
                Step::Reduce { into, .. } if into.len > 0 => *mark = '█',
                Step::Copy { into, .. } if into.len > 0 && *mark == '─' => *mark = '▒',
                _ => {}
            }
        }
    }
    let lanes = lanes(&arrows);
    let works = local.iter().any(|&mark| mark != '─');
    let line = |rank: u32| {
        let mut line: String = lanes.iter().flat_map(|lane| ['─', crossing(lane, rank)]).collect();
        if works {
            line.extend(['─', local[rank as usize]]);
        }
        line + "──"
    };
    let bytes = match (lens.iter().min(), lens.iter().max()) {
        (Some(least), Some(most)) if least == most => format!("{most} B"),
        (Some(least), Some(most)) => format!("{least}-{most} B"),
        _ => String::new(),
    };
    Column { title: format!("round {round}"), bytes, lines: (0..size).map(line).collect() }
}

/// Arrows side by side where one passes a rank of another, else one below the other.
fn lanes(arrows: &[Arrow]) -> Vec<Vec<Arrow>> {
    let span = |&(from, to): &Arrow| (from.min(to), from.max(to));
    let mut sorted = arrows.to_vec();
    sorted.sort_by_key(span);
    let mut lanes: Vec<Vec<Arrow>> = Vec::new();
    for arrow in sorted {
        let is_free = |lane: &&mut Vec<Arrow>| lane.last().is_none_or(|last| span(last).1 < span(&arrow).0);
        match lanes.iter_mut().find(is_free) {
            Some(lane) => lane.push(arrow),
            None => lanes.push(vec![arrow]),
        }
    }
    lanes
}

/// Returns the look of a rank's line where a lane crosses it.
fn crossing(lane: &[Arrow], rank: u32) -> char {
    let here = lane.iter().find(|(from, to)| (*from.min(to)..=*from.max(to)).contains(&rank));
    match here {
        None => '─',
        Some(&(from, _)) if from == rank => '●',
        Some(&(from, to)) if to == rank => {
            if from < to {
                '▼'
            } else {
                '▲'
            }
        }
        Some(_) => '┼',
    }
}

fn panels(columns: &[Column], size: u32, width: usize) -> String {
    let label = |rank: u32| format!("rank {rank}");
    let indent = label(size.saturating_sub(1)).len() + 1;
    let wide = |column: &Column| {
        let head = column.title.len().max(column.bytes.len()) + 2;
        column.lines.first().map_or(0, |line| line.chars().count()).max(head)
    };
    let (mut text, mut rest) = (String::new(), columns);
    while !rest.is_empty() {
        let mut used = indent;
        let fits = rest.iter().take_while(|column| {
            used += wide(column);
            used <= width
        });
        let (panel, after) = rest.split_at(fits.count().max(1));
        rest = after;
        let mut head = |of: fn(&Column) -> &str| {
            let cells: String = panel.iter().map(|one| format!("{:<w$}", of(one), w = wide(one))).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:indent$}{}", "", cells.trim_end());
        };
        head(|column| &column.title);
        head(|column| &column.bytes);
        for rank in 0..size {
            let line = |column: &Column| {
                let line = column.lines.get(rank as usize).map_or("", String::as_str);
                format!("{line:─<w$}", w = wide(column))
            };
            let _ = writeln!(text, "{:<indent$}{}", label(rank), panel.iter().map(line).collect::<String>());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_that_do_not_meet_share_a_lane() {
        assert_eq!(lanes(&[(0, 1), (1, 2), (2, 3), (3, 0)]).len(), 3);
        assert_eq!(lanes(&[(0, 1), (2, 3), (4, 5)]), [[(0, 1), (2, 3), (4, 5)]]);
        assert_eq!(lanes(&[]), Vec::<Vec<Arrow>>::new());
    }

    #[test]
    fn an_arrow_goes_from_its_sender_to_its_receiver_past_others() {
        let down: String = (0..5).map(|rank| crossing(&[(1, 3)], rank)).collect();
        let up: String = (0..5).map(|rank| crossing(&[(3, 1)], rank)).collect();
        assert_eq!((&*down, &*up), ("─●┼▼─", "─▲┼●─"));
    }
}
