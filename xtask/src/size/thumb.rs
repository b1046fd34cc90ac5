//! The branches of Thumb-2 code, as far as a call graph needs them. Encodings: ARM DDI 0403E
//! (ARMv7-M architecture reference manual), A5.2, A5.3 and A7.7.12, A7.7.18 to A7.7.20.

/// The place to which control may go next, other than the next instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Branch {
    /// To this address, and back to the next instruction.
    Call(u32),
    /// To this address for good.
    Jump(u32),
    /// To the address in a register.
    Register,
}

/// Decodes `code`, which stands at `address` and holds instructions only, and hands out every
/// branch and call. Returns through the link register are none.
pub(super) fn branches(address: u32, code: &[u8], mut found: impl FnMut(Branch)) {
    let mut halves = code.chunks_exact(2).map(|pair| match pair {
        &[low, high] => u16::from_le_bytes([low, high]),
        _ => 0,
    });
    let mut here = address;
    while let Some(first) = halves.next() {
        if is_wide(first) {
            let Some(second) = halves.next() else { return };
            if let Some((link, offset)) = wide_offset(first, second) {
                let to = here.wrapping_add(4).wrapping_add_signed(offset);
                found(if link { Branch::Call(to) } else { Branch::Jump(to) });
            }
            here = here.wrapping_add(4);
            continue;
        }
        if let Some(offset) = narrow_offset(first) {
            found(Branch::Jump(here.wrapping_add(4).wrapping_add_signed(offset)));
        } else if is_register_branch(first) {
            found(Branch::Register);
        }
        here = here.wrapping_add(2);
    }
}

/// The first half of a 32-bit instruction begins with 0b11101, 0b11110 or 0b11111.
fn is_wide(first: u16) -> bool {
    first >> 11 >= 0b11101
}

/// `BL` (T1), `B.W` (T4) and `B<c>.W` (T3): whether it links, and the offset from the instruction's
/// address plus 4.
fn wide_offset(first: u16, second: u16) -> Option<(bool, i32)> {
    if first >> 11 != 0b11110 || second >> 15 != 1 {
        return None;
    }
    let sign = u32::from(first >> 10 & 1);
    let (j1, j2) = (u32::from(second >> 13 & 1), u32::from(second >> 11 & 1));
    let low = u32::from(second & 0x7FF) << 1;
    let link = second >> 14 & 1 == 1;
    if second >> 12 & 1 == 1 {
        let (i1, i2) = (u32::from(j1 == sign), u32::from(j2 == sign));
        let high = u32::from(first & 0x3FF) << 12;
        return Some((link, extend(sign << 24 | i1 << 23 | i2 << 22 | high | low, 25)));
    }
    // Conditions 0b111x are other instructions (barriers, MSR); with the link bit it would be BLX,
    // absent here.
    if link || first >> 7 & 0b111 == 0b111 {
        return None;
    }
    let high = u32::from(first & 0x3F) << 12;
    Some((false, extend(sign << 20 | j2 << 19 | j1 << 18 | high | low, 21)))
}

/// `B` (T2) and `B<c>` (T1).
fn narrow_offset(half: u16) -> Option<i32> {
    if half >> 11 == 0b11100 {
        return Some(extend(u32::from(half & 0x7FF) << 1, 12));
    }
    // Conditions 0b111x are UDF and SVC.
    let condition = half >> 8 & 0xF;
    (half >> 12 == 0b1101 && condition < 0b1110).then(|| extend(u32::from(half & 0xFF) << 1, 9))
}

/// `BLX Rm`, and `BX Rm` unless it is the return `BX LR`.
fn is_register_branch(half: u16) -> bool {
    half & 0xFF07 == 0x4700 && half != 0x4770
}

/// Sign-extends the low `bits` bits.
fn extend(value: u32, bits: u32) -> i32 {
    let unused = 32 - bits;
    (value << unused).cast_signed() >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: u32, halves: &[u16]) -> Vec<Branch> {
        let code: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let mut found = Vec::new();
        branches(address, &code, |branch| found.push(branch));
        found
    }

    #[test]
    fn calls_and_jumps_of_every_encoding() {
        // bl to itself + 0x100; bl to itself - 4.
        assert_eq!(of(0x1000, &[0xF000, 0xF87E]), [Branch::Call(0x1100)]);
        assert_eq!(of(0x1000, &[0xF7FF, 0xFFFC]), [Branch::Call(0x0FFC)]);
        // b.w +0x100, bne.w +0x100, b.n itself, beq.n +4.
        assert_eq!(of(0x1000, &[0xF000, 0xB87E]), [Branch::Jump(0x1100)]);
        assert_eq!(of(0x1000, &[0xF040, 0x807E]), [Branch::Jump(0x1100)]);
        assert_eq!(of(0x1000, &[0xE7FE]), [Branch::Jump(0x1000)]);
        assert_eq!(of(0x1000, &[0xD000]), [Branch::Jump(0x1004)]);
    }

    #[test]
    fn calls_through_registers_but_not_returns() {
        assert_eq!(of(0, &[0x4798]), [Branch::Register]); // blx r3
        assert_eq!(of(0, &[0x4718]), [Branch::Register]); // bx r3
        assert_eq!(of(0, &[0x4770]), []); // bx lr
    }

    #[test]
    fn what_looks_like_a_branch_and_is_none() {
        assert_eq!(of(0, &[0xF3BF, 0x8F5B]), []); // dmb ish
        assert_eq!(of(0, &[0xDE00, 0xDF00]), []); // udf, svc
        assert_eq!(of(0, &[0xF8D0, 0xF87E]), []); // ldr.w pc-like second half of a load
    }
}
