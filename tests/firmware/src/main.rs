//! temp
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod board;
#[cfg(target_os = "none")]
mod layout;

#[cfg(not(target_os = "none"))]
fn main() {
    println!("this is a firmware: cargo xtask size builds it for bare metal");
}

#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".facts")]
static ALDIS_BYTES_PER_PEER: u32 = size_of::<aldis_drivers::shm::Lane>() as u32;
#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".facts")]
static ALDIS_BYTES_PER_REQUEST: u32 = 0;
#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".facts")]
static ALDIS_BYTES_PER_COMMUNICATOR: u32 = 0;

#[cfg(target_os = "none")]
use aldis_hal::*;
#[cfg(target_os = "none")]
struct Echo {
    len: usize,
    buf: [u8; 512],
    from: PeerId,
}
#[cfg(target_os = "none")]
impl Sink for Echo {
    fn arrived(&mut self, from: PeerId, m: &[u8]) {
        self.from = from;
        self.len = m.len();
        for (a, b) in self.buf.iter_mut().zip(m) {
            *a = *b
        }
    }
    fn completed(&mut self, _: Token, _: Result<(), Cause>) {}
    fn ready(&mut self, _: PeerId) {}
    fn lost(&mut self, _: PeerId, _: Cause) {}
}
/// x
#[cfg(target_os = "none")]
pub(crate) fn firmware() {
    use aldis_drivers::*;
    let _ = run();
    fn run() -> Option<()> {
        let id = shm::Identity { job: 1, owner: PeerId(0), epoch: Epoch(board::now_ns() as u32 | 1) };
        let inbox = board::inbox(0)?;
        shm::format(&inbox, layout::GEOMETRY, id).ok()?;
        let mut lanes = [const { shm::Lane::EMPTY }; 4];
        let mut t = Shm::new(id, inbox, &mut lanes, Cost::default()).ok()?;
        for p in 1..4 {
            let b = board::inbox(p)?;
            let (_, i) = shm::inspect(&b).ok()?;
            t.attach(PeerId(p as u32), b, i).ok()?;
        }
        let mut e = Echo { len: 0, buf: [0; 512], from: PeerId(0) };
        loop {
            if t.poll(1, Instant(board::now_ns()), &mut e) > 0 {
                if let Ok(mut s) = t.reserve(e.from, e.len) {
                    for (a, b) in s.bytes().iter_mut().zip(&e.buf) {
                        *a = *b
                    }
                    transport::Slot::commit(s)
                }
            }
        }
    }
}
