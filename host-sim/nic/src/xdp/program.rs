//! The program that the system runs for each frame that comes to the interface: it hands those of
//! this station to the socket, and leaves all others to the system.

use aldis_hal::nic::{MAC_HEADER_BYTES, Mac};
use aldis_sys::bpf::BpfStep;

use crate::card::FrameKind;

/// Operations (`linux/bpf.h`): loads, moves, an addition, jumps, a call and the end.
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_BYTE: u8 = 0x71;
const LOAD_MAP: u8 = 0x18;
const MOVE: u8 = 0xBF;
const SET: u8 = 0xB7;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const JUMP_IF_BEYOND: u8 = 0x2D;
const JUMP_UNLESS_WORD: u8 = 0x56;
const JUMP_IF_WORD: u8 = 0x16;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Registers: the result, what the program begins with, what is looked at, and the arguments of the
/// function.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const FRAME: u8 = 2;
const END: u8 = 3;
const VALUE: u8 = 4;
const LAST_TWO: u8 = 5;
const MAP: u8 = 1;
const KEY: u8 = 2;
const OTHERWISE: u8 = 3;

/// Places in the context (`struct xdp_md`): the frame, its end, and the queue that it came by.
const FRAME_AT: i16 = 0;
const END_AT: i16 = 4;
const QUEUE_AT: i16 = 16;

/// Says of a number that it is a file of a map.
const MAP_FILE: u8 = 1;

/// The function `bpf_redirect_map`, and the answer that leaves a frame to the system.
const REDIRECT_MAP: i32 = 51;
const PASS: i32 = 2;

/// Places in a frame, those of IPv4 and UDP in it among them.
const LAST_TWO_AT: i16 = 4;
const ETHERTYPE_AT: i16 = 12;
const VERSION_AT: i16 = 14;
const FRAGMENT_AT: i16 = 20;
const PROTOCOL_AT: i16 = 23;
const PORT_AT: i16 = 36;
/// The bytes up to the end of the port.
const PORT_END: i32 = 38;

/// Version 4 and five words of header; UDP; the bits of a fragment: more follow, and its place.
const VERSION_AND_LENGTH: i32 = 0x45;
const PROTOCOL_UDP: i32 = 17;
const FRAGMENT_BITS: u16 = 0x3FFF;

/// A program that is being written, and its jumps to the end, where a frame is left to the system.
struct Assembly {
    steps: Vec<BpfStep>,
    passes: Vec<usize>,
}

impl Assembly {
    fn step(&mut self, step: BpfStep) {
        self.steps.push(step);
    }

    /// Loads a value of the frame.
    fn load(&mut self, code: u8, at: i16) {
        self.step(BpfStep::new(code, VALUE, FRAME).at(at));
    }

    /// Leaves the frame to the system unless the register has this value.
    fn need(&mut self, register: u8, value: i32) {
        self.passes.push(self.steps.len());
        self.step(BpfStep::new(JUMP_UNLESS_WORD, register, 0).with(value));
    }

    /// Leaves the frame to the system unless it has so many bytes.
    fn need_bytes(&mut self, bytes: i32) {
        self.step(BpfStep::new(MOVE, VALUE, FRAME));
        self.step(BpfStep::new(ADD, VALUE, 0).with(bytes));
        self.passes.push(self.steps.len());
        self.step(BpfStep::new(JUMP_IF_BEYOND, VALUE, END));
    }

    /// The whole program.
    fn end(mut self) -> Vec<BpfStep> {
        let end = self.steps.len();
        for at in self.passes {
            if let Some(step) = self.steps.get_mut(at) {
                *step = step.at((end - at - 1) as i16);
            }
        }
        self.steps.push(BpfStep::new(SET, RESULT, 0).with(PASS));
        self.steps.push(BpfStep::new(EXIT, 0, 0));
        self.steps
    }
}

/// Half a word as it is loaded from a frame.
const fn half(value: u16) -> i32 {
    u16::from_ne_bytes(value.to_be_bytes()) as i32
}

/// The program that hands frames of this kind, to this station or to all, to the socket that the
/// map has for their queue.
pub(super) fn to_station(Mac(mac): Mac, kind: FrameKind, map: i32) -> Vec<BpfStep> {
    let [a, b, c, d, e, f] = mac;
    let (first, last) = (i32::from_ne_bytes([a, b, c, d]), half(u16::from_be_bytes([e, f])));
    let mut program = Assembly { steps: Vec::new(), passes: Vec::new() };
    program.step(BpfStep::new(LOAD_WORD, FRAME, CONTEXT).at(FRAME_AT));
    program.step(BpfStep::new(LOAD_WORD, END, CONTEXT).at(END_AT));
    program.need_bytes(match kind {
        FrameKind::EtherType(_) => MAC_HEADER_BYTES as i32,
        FrameKind::Udp(_) => PORT_END,
    });
    program.load(LOAD_HALF, ETHERTYPE_AT);
    program.need(VALUE, half(kind.ethertype()));
    program.load(LOAD_WORD, 0);
    program.step(BpfStep::new(LOAD_HALF, LAST_TWO, FRAME).at(LAST_TWO_AT));
    // To this station: past the two steps that ask for all ones.
    program.step(BpfStep::new(JUMP_UNLESS_WORD, VALUE, 0).with(first).at(1));
    program.step(BpfStep::new(JUMP_IF_WORD, LAST_TWO, 0).with(last).at(2));
    program.need(VALUE, -1);
    program.need(LAST_TWO, half(u16::MAX));
    if let FrameKind::Udp(port) = kind {
        program.load(LOAD_BYTE, VERSION_AT);
        program.need(VALUE, VERSION_AND_LENGTH);
        program.load(LOAD_BYTE, PROTOCOL_AT);
        program.need(VALUE, PROTOCOL_UDP);
        program.load(LOAD_HALF, FRAGMENT_AT);
        program.step(BpfStep::new(AND, VALUE, 0).with(half(FRAGMENT_BITS)));
        program.need(VALUE, 0);
        program.load(LOAD_HALF, PORT_AT);
        program.need(VALUE, half(port));
    }
    program.step(BpfStep::new(LOAD_WORD, KEY, CONTEXT).at(QUEUE_AT));
    program.step(BpfStep::new(LOAD_MAP, MAP, MAP_FILE).with(map));
    program.step(BpfStep::new(0, 0, 0));
    program.step(BpfStep::new(SET, OTHERWISE, 0).with(PASS));
    program.step(BpfStep::new(CALL, 0, 0).with(REDIRECT_MAP));
    program.step(BpfStep::new(EXIT, 0, 0));
    program.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0xA1, 3, 4, 5, 6];
    const QUEUE: u64 = 3;
    const FILE: i32 = 77;

    /// Runs a program on a frame, as the system does: true if it goes to the socket of its queue.
    fn takes(program: &[BpfStep], frame: &[u8]) -> bool {
        // The frame stands at this place, and the context has a place of its own.
        const PLACE: u64 = 1 << 20;
        let mut registers = [0_u64; 11];
        let mut at = 0;
        loop {
            let step = program[at];
            let [to, from] = step.registers().map(usize::from);
            let place = |registers: &[u64; 11]| {
                (registers[from] - PLACE) as usize + usize::try_from(step.offset).unwrap()
            };
            at += 1;
            match step.code {
                LOAD_WORD if from == usize::from(CONTEXT) => {
                    registers[to] = match step.offset {
                        FRAME_AT => PLACE,
                        END_AT => PLACE + frame.len() as u64,
                        _ => QUEUE,
                    };
                }
                LOAD_WORD => {
                    let at = place(&registers);
                    registers[to] = u32::from_ne_bytes(frame[at..at + 4].try_into().unwrap()).into();
                }
                LOAD_HALF => {
                    let at = place(&registers);
                    registers[to] = u16::from_ne_bytes(frame[at..at + 2].try_into().unwrap()).into();
                }
                LOAD_BYTE => registers[to] = frame[place(&registers)].into(),
                LOAD_MAP => {
                    registers[to] = step.immediate as u64;
                    at += 1;
                }
                MOVE => registers[to] = registers[from],
                SET => registers[to] = step.immediate as u64,
                ADD => registers[to] += step.immediate as u64,
                AND => registers[to] &= step.immediate as u64,
                JUMP_IF_BEYOND if registers[to] <= registers[from] => {}
                JUMP_UNLESS_WORD if registers[to] as u32 == step.immediate as u32 => {}
                JUMP_IF_WORD if registers[to] as u32 != step.immediate as u32 => {}
                JUMP_IF_BEYOND | JUMP_UNLESS_WORD | JUMP_IF_WORD => {
                    at += usize::try_from(step.offset).unwrap();
                }
                CALL => {
                    assert_eq!(registers[1..4], [FILE as u64, QUEUE, PASS as u64]);
                    return true;
                }
                code => {
                    assert_eq!((code, registers[0]), (EXIT, PASS as u64));
                    return false;
                }
            }
        }
    }

    fn frame(to: [u8; 6], ethertype: u16) -> Vec<u8> {
        [&to[..], &[9; 6], &ethertype.to_be_bytes(), &[0; 46]].concat()
    }

    #[test]
    fn frames_to_this_station_and_to_all_go_to_the_socket_and_no_others() {
        let program = to_station(Mac(MAC), FrameKind::EtherType(0x88B5), FILE);
        for to in [MAC, [0xFF; 6]] {
            assert!(takes(&program, &frame(to, 0x88B5)) && !takes(&program, &frame(to, 0x0800)));
            assert!(takes(&program, &frame(to, 0x88B5)[..14]) && !takes(&program, &frame(to, 0x88B5)[..13]));
        }
        let near = [
            [2, 0xA1, 3, 4, 5, 7],
            [3, 0xA1, 3, 4, 5, 6],
            [2, 0xA1, 3, 4, 0xFF, 0xFF],
            [0xFF, 0xFF, 0xFF, 0xFF, 5, 6],
            [0, 0, 0xFF, 0xFF, 0xFF, 0xFF],
            [1, 0, 0x5E, 0, 0, 1],
        ];
        assert!(near.iter().all(|to| !takes(&program, &frame(*to, 0x88B5))));
    }

    #[test]
    fn datagrams_of_the_port_alone_go_to_the_socket() {
        let program = to_station(Mac(MAC), FrameKind::Udp(53_665), FILE);
        let datagram = |at: usize, bytes: &[u8]| {
            let mut frame = frame(MAC, 0x0800);
            frame[14] = 0x45;
            frame[20..22].copy_from_slice(&0x4000_u16.to_be_bytes());
            frame[23] = 17;
            frame[36..38].copy_from_slice(&53_665_u16.to_be_bytes());
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            frame
        };
        assert!(takes(&program, &datagram(0, &[0xFF; 6])) && takes(&program, &datagram(0, &MAC)));
        assert!(takes(&program, &datagram(40, &[7, 8])));
        let others: [(usize, &[u8]); 8] = [
            (0, &[2, 0xA1, 3, 4, 5, 7]),
            (12, &[0x88, 0xB5]),
            (14, &[0x46]),
            (14, &[0x65]),
            (23, &[6]),
            // A fragment that more follow, and one that follows.
            (20, &[0x20, 0]),
            (20, &[0, 1]),
            (36, &[0, 22]),
        ];
        for (at, bytes) in others {
            assert!(!takes(&program, &datagram(at, bytes)), "{at} {bytes:?}");
        }
        assert!(!takes(&program, &datagram(0, &MAC)[..37]));
    }
}
