//! From frames of the device to messages. Everything here is said by strangers until it has been
//! checked.

use aldis_hal::cause::Malformed;
use aldis_hal::copy::copy;
use aldis_hal::nic::Offload;
use aldis_hal::{Cause, PeerId, Sink};
use aldis_protocols::connect::{Connect, Message, slot};
use aldis_protocols::reliable::{Frame, FrameFate, FrameKind, Taken, open};

use super::engine::EthernetEngine;
use super::framing::{Port, Station};
use super::header::{Foreign, SUBTYPE};
use super::peer::PeerPresence;

/// A frame of the reliable protocol, with its sender.
struct ReceivedFrame<'b> {
    from: Station,
    frame: &'b Frame,
    payload: &'b [u8],
}

/// The payload of a frame that the link has judged.
struct Payload<'b> {
    fate: FrameFate,
    sequence: u32,
    bytes: &'b [u8],
}

impl EthernetEngine<'_> {
    /// Takes a frame in, of which the device has `checked` checksums; at most `budget` events come
    /// of it, and one at least: the frame itself.
    pub(super) fn take_in<S: Sink>(
        &mut self,
        bytes: &[u8],
        checked: Offload,
        budget: u32,
        sink: &mut S,
    ) -> u32 {
        self.counters.frames_received += 1;
        let port = Port { offload: self.port.offload | checked, ..self.port };
        let (from, body) = match self.framing.parse(SUBTYPE, bytes, port, false) {
            Ok(parts) => parts,
            Err(why) => return self.refuse_foreign(why),
        };
        match open(body) {
            Ok((frame, message)) if frame.kind == FrameKind::Handshake as u8 => {
                self.take_handshake(from, message)
            }
            Ok((frame, payload)) => {
                return self.take_frame(ReceivedFrame { from, frame, payload }, budget, sink);
            }
            Err(why) => self.refuse(why),
        }
        1
    }

    #[cold]
    fn refuse_foreign(&mut self, why: Foreign) -> u32 {
        let counter = match why {
            Foreign::Short => &mut self.counters.truncated,
            Foreign::Version => &mut self.counters.version,
            Foreign::Checksum => &mut self.counters.checksum,
            Foreign::Protocol | Foreign::Destination => &mut self.counters.foreign,
        };
        *counter += 1;
        1
    }

    #[cold]
    fn refuse(&mut self, why: Malformed) {
        let counter = match why {
            Malformed::Length | Malformed::Short { .. } => &mut self.counters.truncated,
            Malformed::Checksum => &mut self.counters.checksum,
            Malformed::Version(_) => &mut self.counters.version,
            _ => &mut self.counters.malformed,
        };
        *counter += 1;
    }

    /// A message of the handshake. It is looked at only if it comes from where the rank was said to
    /// live.
    #[cold]
    fn take_handshake(&mut self, from: Station, message: &[u8]) {
        let message = match Message::decode(message) {
            Ok(message) => message,
            Err(why) => return self.refuse(why),
        };
        let index = self.index(PeerId(message.rank));
        let row = index.and_then(|index| Some((index, self.rows.get(index)?)));
        let Some((row, entry)) = row.filter(|(_, row)| row.presence != PeerPresence::Unknown) else {
            self.counters.unknown += 1;
            return;
        };
        if entry.station != from {
            self.counters.impostor += 1;
            return;
        }
        let Some(index) = entry.link() else { return self.take_contact(row, &message) };
        let Some(link) = self.links.get_mut(index) else { return };
        if link.closing && link.backlog {
            // What has come is delivered before the end of the connection; the peer says it again.
            return;
        }
        let event = link.connect.handle(&self.setup, &message, self.now);
        self.due.push(self.links, index as u32);
        if let Some(event) = event {
            self.settle(index, event);
        }
        self.note(index);
    }

    /// A message of the handshake from a peer without a link: given one if it asks for a connection
    /// or is found to have begun a new life, answered if it is neither, and turned away if there is
    /// no link now.
    #[cold]
    fn take_contact(&mut self, row: usize, message: &Message) {
        let Some(entry) = self.rows.get_mut(row) else { return };
        let (station, before) = (entry.station, entry.record);
        let mut connect = Connect::resume(before, message.rank, row as u16);
        let event = connect.handle(&self.setup, message, self.now);
        entry.record = connect.record();
        if event.is_none() && !connect.is_connecting() {
            let answer = connect.poll_transmit(&self.setup);
            self.pool.answer = answer.map(|answer| (station, answer));
            return;
        }
        entry.record = before;
        let Some(index) = self.take_link_asked(row) else {
            self.counters.turned_away += 1;
            self.pool.answer = Some((station, Connect::turn_away(&self.setup, message)));
            return self.want(row);
        };
        if let Some(link) = self.links.get_mut(index) {
            link.connect = connect;
        }
        self.due.push(self.links, index as u32);
        if let Some(event) = event {
            self.settle(index, event);
        }
        self.note(index);
    }

    /// A frame of a connection.
    #[inline]
    fn take_frame<S: Sink>(&mut self, received: ReceivedFrame<'_>, budget: u32, sink: &mut S) -> u32 {
        let ReceivedFrame { from, frame, payload } = received;
        let number = frame.connection.get();
        let row = self.rows.get(usize::from(slot(number)));
        let held = row.and_then(|row| Some((row, row.link()?)));
        let held = held.and_then(|(row, index)| Some((row, index, self.links.get_mut(index)?)));
        let Some((row, index, link)) = held.filter(|(_, _, link)| link.connect.number() == number) else {
            self.counters.stale += 1;
            return 1;
        };
        if row.station != from {
            self.counters.impostor += 1;
            return 1;
        }
        if !link.link.is_open() {
            // What comes before the confirmation is as good as one; after the end it is nothing.
            match link.connect.handle_data(number) {
                Some(event) => self.settle(index, event),
                None => {
                    self.counters.stale += 1;
                    return 1;
                }
            }
        }
        if payload.len() > self.incoming.message_bytes {
            return self.cut_off(index, Malformed::Length);
        }
        let Some(link) = self.links.get_mut(index) else { return 1 };
        let events = match link.link.handle_frame(&self.link, frame, self.now) {
            Ok(Taken { fate, .. }) => self.take_payload(
                index,
                Payload { fate, sequence: frame.sequence.get(), bytes: payload },
                budget,
                sink,
            ),
            Err(what) => return self.cut_off(index, what),
        };
        self.after_frame(index);
        events
    }

    /// Does with a payload as the link says.
    #[inline]
    fn take_payload<S: Sink>(
        &mut self,
        index: usize,
        payload: Payload<'_>,
        budget: u32,
        sink: &mut S,
    ) -> u32 {
        let Payload { fate, sequence, bytes } = payload;
        let Some(link) = self.links.get_mut(index) else { return 1 };
        match fate {
            FrameFate::Deliver => {
                link.used = true;
                let row = link.row as usize;
                sink.arrived(self.peer(row), bytes);
                self.counters.messages_received += 1;
                self.deliver_next(index, budget, sink)
            }
            FrameFate::Store => {
                let place = self.link.slot(sequence);
                copy(self.incoming.fill(index, place, bytes.len()), bytes);
                self.incoming.set_len(index, place, bytes.len());
                link.link.stored(sequence);
                self.counters.reordered += 1;
                1
            }
            FrameFate::Duplicate => {
                self.counters.duplicates += 1;
                1
            }
            FrameFate::Stale => {
                self.counters.stale += 1;
                1
            }
            FrameFate::None => 1,
        }
    }

    /// After a delivery: what was stored and is next now, as far as the budget goes; the rest in
    /// the next poll.
    #[inline]
    fn deliver_next<S: Sink>(&mut self, index: usize, budget: u32, sink: &mut S) -> u32 {
        if let Some(link) = self.links.get_mut(index) {
            link.backlog = true;
        }
        let told = self.deliver_stored(index, budget.saturating_sub(1), sink);
        if self.links.get(index).is_some_and(|link| link.backlog) {
            self.announce(index);
        }
        1 + told
    }

    /// The frame may have opened the window, want an answer, or have moved the timers.
    #[inline]
    fn after_frame(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        if link.closing {
            self.step_close(index);
        }
        let Some(link) = self.links.get_mut(index) else { return };
        let due = link.link.poll_transmit().is_some();
        let waiting = !link.closing && self.rows.get(link.row as usize).is_some_and(|row| row.waiting);
        let ready = waiting && link.link.vacancy(&self.link, self.now).is_ok();
        self.timers.note(link.deadline());
        if due {
            self.due.push(self.links, index as u32);
        }
        if ready {
            self.announce(index);
        }
    }

    /// Ends a peer that broke the protocol on a connection of its own.
    #[cold]
    fn cut_off(&mut self, index: usize, what: Malformed) -> u32 {
        self.counters.malformed += 1;
        let row = self.links.get(index).map_or(0, |link| link.row);
        aldis_hal::debug!("{} broke the protocol: {}", self.peer(row as usize), what);
        self.lose(index, Cause::Malformed(what));
        1
    }
}
