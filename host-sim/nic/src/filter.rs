//! The program of the classic BPF by which a socket takes this station's frames alone: several
//! ranks on one interface do not wake each other.

use aldis_hal::nic::Mac;
use aldis_sys::interface::sock_filter;

/// Loads a word or half a word at a place of the frame; compares; returns.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// The place of the EtherType in a frame, and of the last four bytes of the destination.
const ETHERTYPE_AT: u32 = 12;
const LAST_FOUR_AT: u32 = 2;

const fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Goes so many steps further if the loaded value is `k`, or so many if it is not.
const fn branch(k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: JUMP_IF_EQUAL, jt, jf, k }
}

/// Frames to this station and to all, of one EtherType or of any.
pub(crate) fn to_station(Mac([a, b, c, d, e, f]): Mac, ethertype: Option<u16>) -> Vec<sock_filter> {
    let high = u32::from(u16::from_be_bytes([a, b]));
    let mut program = vec![
        step(LOAD_WORD, LAST_FOUR_AT),
        branch(u32::from_be_bytes([c, d, e, f]), 0, 2),
        step(LOAD_HALF, 0),
        branch(high, 3, 6),
        branch(u32::MAX, 0, 5),
        step(LOAD_HALF, 0),
        branch(u16::MAX.into(), 0, 3),
    ];
    // A comparison that holds always keeps the distances.
    program.push(step(LOAD_HALF, ETHERTYPE_AT));
    program.push(match ethertype {
        Some(ethertype) => branch(ethertype.into(), 0, 1),
        None => branch(0, 0, 0),
    });
    program.extend([step(RETURN, u32::MAX), step(RETURN, 0)]);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program of such steps on a frame: what the system does.
    fn takes(program: &[sock_filter], frame: &[u8]) -> bool {
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let place = k as usize;
            at += 1;
            match code {
                LOAD_WORD => value = u32::from_be_bytes(frame[place..place + 4].try_into().unwrap()),
                LOAD_HALF => value = u16::from_be_bytes(frame[place..place + 2].try_into().unwrap()).into(),
                JUMP_IF_EQUAL => at += usize::from(if value == k { jt } else { jf }),
                _ => return k != 0,
            }
        }
    }

    #[test]
    fn frames_to_this_station_and_to_all_pass_and_no_others() {
        let mac = [2, 0xA1, 3, 4, 5, 6];
        let frame =
            |to: [u8; 6], ethertype: u16| [&to[..], &[9; 6], &ethertype.to_be_bytes(), &[0; 46]].concat();
        let (own, any) = (to_station(Mac(mac), Some(0x88B5)), to_station(Mac(mac), None));
        for to in [mac, [0xFF; 6]] {
            assert!(takes(&own, &frame(to, 0x88B5)) && takes(&any, &frame(to, 0x88B5)));
            assert!(!takes(&own, &frame(to, 0x0800)) && takes(&any, &frame(to, 0x0800)));
        }
        let near = [
            [2, 0xA1, 3, 4, 5, 7],
            [3, 0xA1, 3, 4, 5, 6],
            [0, 0, 0xFF, 0xFF, 0xFF, 0xFF],
            [1, 0, 0x5E, 0, 0, 1],
        ];
        for to in near {
            assert!(!takes(&own, &frame(to, 0x88B5)) && !takes(&any, &frame(to, 0x88B5)), "{to:?}");
        }
    }
}
