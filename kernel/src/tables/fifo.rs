//! A bounded FIFO of indices over a slice of the storage.

/// First in, first out; as many as the slice holds.
#[derive(Debug)]
pub(crate) struct Fifo<'s> {
    slots: &'s mut [u32],
    head: u32,
    len: u32,
}

impl<'s> Fifo<'s> {
    pub(crate) fn new(slots: &'s mut [u32]) -> Self {
        Self { slots, head: 0, len: 0 }
    }

    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Appends `value`; gives it back if the FIFO is full.
    pub(crate) fn push(&mut self, value: u32) -> Result<(), u32> {
        let capacity = self.slots.len() as u32;
        if self.len >= capacity {
            return Err(value);
        }
        let end = self.head + self.len;
        let tail = if end >= capacity { end - capacity } else { end };
        match self.slots.get_mut(tail as usize) {
            Some(slot) => *slot = value,
            None => return Err(value),
        }
        self.len += 1;
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let value = *self.slots.get(self.head as usize)?;
        self.head = if self.head as usize + 1 == self.slots.len() { 0 } else { self.head + 1 };
        self.len -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_as_a_bounded_deque(capacity in 0usize..5, steps in proptest::collection::vec(any::<Option<u32>>(), 0..100)) {
            let mut slots = [0; 5];
            let mut fifo = Fifo::new(&mut slots[..capacity]);
            let mut model = VecDeque::new();
            for step in steps {
                match step {
                    Some(value) if model.len() < capacity => { model.push_back(value); prop_assert_eq!(fifo.push(value), Ok(())); }
                    Some(value) => prop_assert_eq!(fifo.push(value), Err(value)),
                    None => prop_assert_eq!(fifo.pop(), model.pop_front()),
                }
                prop_assert_eq!(fifo.len() as usize, model.len());
            }
        }
    }
}
