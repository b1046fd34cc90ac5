//! The cost of a schedule.

use core::fmt;

use aldis_coll::schedule::Instance;
use aldis_sim::whatif::watch::{CriticalPath, Load, ProcessorWork, WorkKind};
use serde_json::json;

use crate::study::Study;

/// The figures of a study.
#[derive(Debug)]
pub(crate) struct Figures {
    head: String,
    rounds: u32,
    segments: usize,
    messages: u64,
    bytes: u64,
    links: usize,
    /// Sender, receiver, and what goes from one to the other.
    busiest: Option<((u32, u32), Load)>,
    /// The most that one rank sends, and that one receives.
    most: [u64; 2],
    path: CriticalPath,
    simulated_ns: f64,
    closed_form_ns: u64,
}

impl Figures {
    pub(crate) fn of(study: &Study) -> Self {
        let (run, links) = (&study.run, study.trace.links());
        let rounds = Instance::new(0, run.size, run.root, study.plan.segment)
            .map_or(0, |first| run.algorithm.rounds(&first));
        let mut of_rank = vec![[0_u64; 2]; run.size as usize];
        for (&(from, to), load) in &links {
            of_rank[from as usize][0] += load.bytes;
            of_rank[to as usize][1] += load.bytes;
        }
        let most = [0, 1].map(|way| of_rank.iter().map(|both| both[way]).max().unwrap_or(0));
        let bytes = run.count as u64 * u64::from(run.element_bytes);
        let head = format!(
            "{} {}: {} ranks, {bytes} bytes{}",
            study.operation,
            study.candidate.name(),
            run.size,
            if aldis_coll::schedule::on_blocks(study.operation) { " a block" } else { "" },
        );
        Self {
            head,
            rounds,
            segments: study.segments(),
            messages: study.outcome.messages,
            bytes: study.outcome.bytes,
            links: links.len(),
            // The first of those that carry the most.
            busiest: links.into_iter().rev().max_by_key(|(_, load)| load.bytes),
            most,
            path: study.trace.critical_path(),
            simulated_ns: study.outcome.time_ps as f64 / 1e3,
            closed_form_ns: study.closed_form_ns,
        }
    }

    pub(crate) fn json(&self, study: &Study) -> Result<String, String> {
        let ns = |ps: u64| ps as f64 / 1e3;
        let messages: Vec<_> = study
            .trace
            .messages()
            .iter()
            .map(|message| {
                json!({
                    "from": message.sent.rank, "to": message.received.rank, "bytes": message.sent.bytes,
                    "element": message.sent.base, "round": message.sent.round,
                    "sent_ns": ns(message.sent.start_ps), "received_ns": ns(message.received.end_ps),
                })
            })
            .collect();
        let busiest = self.busiest.map(|((from, to), load)| {
            json!({ "from": from, "to": to, "messages": load.messages, "bytes": load.bytes })
        });
        let value = json!({
            "operation": study.operation.to_string(),
            "algorithm": study.candidate.name(),
            "source": study.candidate.source(),
            "ranks": study.run.size,
            "root": study.run.root,
            "elements": study.run.count,
            "element_bytes": study.run.element_bytes,
            "rounds": self.rounds,
            "segments": self.segments,
            "messages": self.messages,
            "bytes": self.bytes,
            "links": self.links,
            "busiest_link": busiest,
            "sent_bytes_max": self.most[0],
            "received_bytes_max": self.most[1],
            "critical_path": {
                "ranks": ranks(&self.path),
                "messages": hops(&self.path),
                "overhead_ns": ns(self.path.overhead_ps),
                "way_ns": ns(self.path.way_ps),
                "local_ns": ns(self.path.local_ps),
            },
            "simulated_ns": self.simulated_ns,
            "closed_form_ns": self.closed_form_ns,
            "steps": messages,
        });
        let text = serde_json::to_string_pretty(&value).map_err(|error| error.to_string())?;
        Ok(text + "\n")
    }
}

/// Returns true if the path goes from this act to another rank, which was waiting for it.
fn leaves(pair: &[ProcessorWork]) -> bool {
    let [sends, next] = pair else { return false };
    matches!(sends.what, WorkKind::Sends { .. }) && next.rank != sends.rank
}

/// The number of messages of a path that a rank waits for.
fn hops(path: &CriticalPath) -> usize {
    path.acts.windows(2).filter(|pair| leaves(pair)).count()
}

/// The ranks that the path goes through.
fn ranks(path: &CriticalPath) -> Vec<u32> {
    let mut ranks: Vec<u32> = path.acts.iter().map(|act| act.rank).collect();
    ranks.dedup();
    ranks
}

fn messages_of(number: u64) -> String {
    if number == 1 { "1 message".into() } else { format!("{number} messages") }
}

/// The most ranks of a path that are listed.
const LISTED_MAX: usize = 16;

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { head, rounds, segments, messages, bytes, links, path, .. } = self;
        writeln!(f, "{head}")?;
        write!(f, "  rounds         {rounds}")?;
        if *segments > 1 {
            write!(f, " for each of {segments} segments")?;
        }
        writeln!(f, "\n  messages       {messages}, of {bytes} bytes together")?;
        write!(f, "  links          {links} used")?;
        if let Some(((from, to), load)) = self.busiest {
            let number = messages_of(load.messages);
            write!(f, "; the busiest, {from} to {to}: {} bytes in {number}", load.bytes)?;
        }
        let [sent, received] = self.most;
        writeln!(f, "\n  a rank         sends {sent} bytes at most, and receives {received}")?;
        let through = ranks(path);
        let listed: Vec<String> = through.iter().take(LISTED_MAX).map(u32::to_string).collect();
        let more = if through.len() > LISTED_MAX { ", ..." } else { "" };
        let number = messages_of(hops(path) as u64);
        writeln!(f, "  critical path  {number}; ranks {}{more}", listed.join(", "))?;
        let ns = |ps: u64| format!("{:.0} ns", ps as f64 / 1e3);
        let (overhead, way, local) = (ns(path.overhead_ps), ns(path.way_ps), ns(path.local_ps));
        writeln!(
            f,
            "                 {overhead} to send and receive, {way} on the way, {local} of local work"
        )?;
        writeln!(
            f,
            "  time           {:.0} ns simulated, {} ns by the closed form",
            self.simulated_ns, self.closed_form_ns
        )
    }
}
