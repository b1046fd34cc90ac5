//! A run event by event, and as a trace that <https://ui.perfetto.dev> and chrome://tracing show.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

/// An event of a run. Times are virtual, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A node was awake.
    Turn {
        /// The node.
        node: u32,
        /// The time at which it woke.
        start: u64,
        /// The time at which it went to rest.
        end: u64,
    },
    /// A message was posted.
    Sent {
        /// The node that posted it.
        from: u32,
        /// The node that it was sent to.
        to: u32,
        /// The time at which it was posted.
        at: u64,
        /// Its bytes.
        bytes: usize,
    },
    /// A message was taken from the network: the oldest of its pair that had not been.
    Taken {
        /// The node that had sent it.
        from: u32,
        /// The node that took it.
        to: u32,
        /// The time at which it was taken.
        at: u64,
    },
    /// A node stopped for a while.
    Pause {
        /// The node.
        node: u32,
        /// The time at which it stopped.
        at: u64,
        /// The time until which it stopped.
        until: u64,
    },
    /// A node died.
    Crash {
        /// The node.
        node: u32,
        /// The time at which it died.
        at: u64,
    },
    /// A node that had died booted again.
    Boot {
        /// The node.
        node: u32,
        /// The time at which it booted.
        at: u64,
    },
    /// A frame was sent.
    FrameSent {
        /// The number of the frame.
        frame: u64,
        /// The node that sent it.
        from: u32,
        /// The node that it was sent to.
        to: u32,
        /// The time at which it was sent.
        at: u64,
        /// Its bytes.
        bytes: usize,
    },
    /// A frame was taken from the network; one that came twice can be taken twice.
    FrameTaken {
        /// The number of the frame.
        frame: u64,
        /// The node that had sent it.
        from: u32,
        /// The node that took it.
        to: u32,
        /// The time at which it was taken.
        at: u64,
    },
    /// A frame was lost on its way or found its receiver full.
    FrameLost {
        /// The number of the frame.
        frame: u64,
        /// The node that had sent it.
        from: u32,
        /// The node that it was sent to.
        to: u32,
        /// The time at which it would have arrived.
        at: u64,
    },
}

/// Writes `records` in the trace event format: a line a node, an arrow a message.
///
/// # Errors
/// Those of `out`.
pub fn chrome_trace(records: &[Record], out: &mut impl Write) -> io::Result<()> {
    let (mut sent, mut taken) = (BTreeMap::new(), BTreeMap::new());
    let next = |lanes: &mut BTreeMap<(u32, u32), u32>, from, to| {
        let count: &mut u32 = lanes.entry((from, to)).or_default();
        *count += 1;
        format!("{from}-{to}-{count}")
    };
    let us = |ns: u64| ns as f64 / 1000.0;
    out.write_all(b"[")?;
    for (index, record) in records.iter().enumerate() {
        let event: Value = match *record {
            Record::Turn { node, start, end } => {
                json!({ "ph": "X", "name": "awake", "pid": 0, "tid": node, "ts": us(start), "dur": us(end - start) })
            }
            Record::Sent { from, to, at, bytes } => {
                let (id, args) = (next(&mut sent, from, to), json!({ "to": to, "bytes": bytes }));
                json!({ "ph": "s", "name": "message", "cat": "message", "id": id, "pid": 0, "tid": from,
                    "ts": us(at), "args": args })
            }
            Record::Taken { from, to, at } => {
                let id = next(&mut taken, from, to);
                json!({ "ph": "f", "bp": "e", "name": "message", "cat": "message", "id": id, "pid": 0, "tid": to,
                    "ts": us(at) })
            }
            Record::Pause { node, at, until } => {
                json!({ "ph": "X", "name": "paused", "pid": 0, "tid": node, "ts": us(at), "dur": us(until - at) })
            }
            Record::Crash { node, at } => {
                json!({ "ph": "i", "s": "t", "name": "died", "pid": 0, "tid": node, "ts": us(at) })
            }
            Record::Boot { node, at } => {
                json!({ "ph": "i", "s": "t", "name": "booted", "pid": 0, "tid": node, "ts": us(at) })
            }
            Record::FrameSent { frame, from, to, at, bytes } => {
                json!({ "ph": "s", "name": "frame", "cat": "frame", "id": frame, "pid": 0, "tid": from,
                    "ts": us(at), "args": { "to": to, "bytes": bytes } })
            }
            Record::FrameTaken { frame, to, at, .. } => {
                json!({ "ph": "f", "bp": "e", "name": "frame", "cat": "frame", "id": frame, "pid": 0, "tid": to,
                    "ts": us(at) })
            }
            Record::FrameLost { frame, to, at, .. } => {
                json!({ "ph": "i", "s": "t", "name": "frame lost", "pid": 0, "tid": to, "ts": us(at),
                    "args": { "frame": frame } })
            }
        };
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &event)?;
    }
    out.write_all(b"\n]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_json_and_its_arrows_have_two_ends() {
        let records = [
            Record::Turn { node: 0, start: 0, end: 1500 },
            Record::Sent { from: 0, to: 1, at: 1500, bytes: 32 },
            Record::Taken { from: 0, to: 1, at: 2500 },
            Record::Pause { node: 1, at: 0, until: 9 },
            Record::Crash { node: 0, at: 3000 },
        ];
        let mut text = Vec::new();
        chrome_trace(&records, &mut text).unwrap();
        let events: Vec<Value> = serde_json::from_slice(&text).unwrap();
        assert_eq!(events.len(), 5);
        assert_eq!((&events[1]["id"], &events[1]["ts"]), (&json!("0-1-1"), &json!(1.5)));
        assert_eq!(events[1]["id"], events[2]["id"]);
    }
}
