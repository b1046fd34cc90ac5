//! The places of messages in attached memory: a ring of their requests by address for each memory,
//! so that messages cost their bytes alone, a send looks no further than the first gap that is
//! large enough, and what is received leaves at a cost that does not depend on how many others
//! there are.

use crate::counters::count;
use crate::engine::state::Engine;
use crate::memory::buffer::{UserBuffer, overlap};
use crate::rank::Mode;
use crate::tables::comms::Comms;
use crate::tables::list::{InScope, Ring};
use crate::tables::request::{Request, Requests};

impl Request {
    /// Returns true if it is a buffered send: one whose owner has let go, but which has its memory.
    const fn is_buffered(&self) -> bool {
        self.orphan && self.buffer.len() > 0 && matches!(self.mode, Mode::Standard)
    }
}

impl<'s> Engine<'s> {
    /// The room for a message in the memory for its context: the first gap, from where a message
    /// came or went last, that is large enough. Bounded: every step passes a message, none is
    /// passed twice.
    pub(crate) fn room_for(&mut self, context: u32, len: usize) -> Option<UserBuffer> {
        let all = self.attached.unwrap_or(UserBuffer::NONE);
        let Self { comms, requests, buffered, counters, .. } = self;
        let (memory, messages) = match own_memory(comms, context) {
            Some(own) => own,
            None if all.is_scattered() => return None,
            None => (all, &mut buffered.messages),
        };
        let start = find_gap(requests, memory, messages, len, &mut counters.buffer_steps)?;
        memory.part(start..start.checked_add(len)?)
    }

    /// Puts the send in slot `index`, whose room [`room_for`](Self::room_for) has found, among the
    /// messages of its memory.
    pub(crate) fn keep_buffered(&mut self, index: u32) {
        let Some(request) = self.requests.at(index) else { return };
        request.orphan = true;
        if !request.is_buffered() {
            return;
        }
        let context = request.key.context;
        let Self { comms, requests, buffered, .. } = self;
        let messages = own_memory(comms, context).map_or(&mut buffered.messages, |(_, own)| own);
        // The ring is still at the message in front of the gap: if that is over since, at the one
        // before it.
        messages.insert(requests, index);
        buffered.count = buffered.count.wrapping_add(1);
        buffered.release = Some(Self::release_buffered);
    }

    /// Frees the room of a request without an owner that is over, if it has any.
    pub(crate) fn let_go(&mut self, index: u32) {
        if let Some(release) = self.buffered.release {
            release(self, index);
        }
    }

    /// Takes the request in slot `index` out of the messages of its memory, which are looked at
    /// from its gap on.
    #[cold]
    #[inline(never)]
    pub(crate) fn release_buffered(&mut self, index: u32) {
        let Some(request) = self.requests.at(index).filter(|request| request.is_buffered()) else { return };
        let (context, message) = (request.key.context, request.memory());
        if self.buffered.staging.holds(message) {
            self.buffered.count = self.buffered.count.wrapping_sub(1);
            return self.release_staged(index);
        }
        let all = self.attached.unwrap_or(UserBuffer::NONE);
        let Self { comms, requests, buffered, .. } = self;
        let before = Ring::<InScope>::unlink(requests, index);
        buffered.count = buffered.count.wrapping_sub(1);
        // In the endpoint's memory, if it was sent before its communicator was given memory; in
        // none any more, if the communicator has been freed.
        match own_memory(comms, context).filter(|(memory, _)| overlap(*memory, message)) {
            Some((_, messages)) => messages.turn_to(before),
            None if overlap(all, message) => buffered.messages.turn_to(before),
            None => {}
        }
    }

    /// Returns true if a buffered send is under way.
    pub(crate) const fn is_buffering(&self) -> bool {
        self.buffered.count > 0
    }
}

/// The memory of a communicator's own, if it has been given any, and the messages in it.
fn own_memory<'c>(comms: &'c mut Comms<'_>, context: u32) -> Option<(UserBuffer, &'c mut Ring<InScope>)> {
    let settings = comms.settings_of(context).filter(|settings| !settings.attached.is_scattered())?;
    Some((settings.attached, &mut settings.buffered))
}

/// Returns where `len` bytes are free in `memory`, from the message on that the ring is at; the
/// ring is at the message in front of them then.
fn find_gap(
    requests: &mut Requests<'_>,
    memory: UserBuffer,
    messages: &mut Ring<InScope>,
    len: usize,
    steps: &mut u64,
) -> Option<usize> {
    let Some(first) = messages.at().filter(|_| len > 0) else { return (len <= memory.len()).then_some(0) };
    let mut index = first;
    let mut message = place(requests, memory, index)?;
    loop {
        count(steps);
        let next = Ring::<InScope>::after(requests, index)?;
        let following = place(requests, memory, next)?;
        let is_last = following.start <= message.start;
        let end = if is_last { memory.len() } else { following.start };
        let start = if end.checked_sub(message.end)? >= len {
            Some(message.end)
        } else {
            (is_last && following.start >= len).then_some(0)
        };
        if start.is_some() || next == first {
            messages.turn_to(start.map(|_| index).or(Some(first)));
            return start;
        }
        (index, message) = (next, following);
    }
}

/// The range of memory that the message in slot `index` lies in.
fn place(requests: &mut Requests<'_>, memory: UserBuffer, index: u32) -> Option<core::ops::Range<usize>> {
    let message = requests.at(index)?.memory();
    let start = message.address().checked_sub(memory.address())?;
    Some(start..start.checked_add(message.len())?)
}

#[cfg(test)]
mod tests;
