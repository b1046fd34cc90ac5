//! The interfaces and the PCI cards of this machine.

use core::error::Error;
use core::fmt::Write;

use aldis_hal::nic::Mac;
use aldis_nic::{CardChoice, CardError, CardKind, FoundCard, PciNic, XdpNic};
use aldis_sys::file::{AccessFlags, access};
use aldis_sys::interface::{IFF_RUNNING, IFF_UP, TUN_DEVICE, interface, interface_names};
use serde_json::json;

use crate::station::{BenchStation, WrittenMac};

/// A card, and whether a job can use it.
struct ListedCard {
    choice: CardChoice,
    /// The state of its interface, or the driver that it has.
    state: String,
    /// The MTU and the address of its interface.
    mtu: Option<u32>,
    mac: Option<String>,
    /// The reason why it cannot be used, with what to do.
    refused: Option<CardError>,
}

/// The kinds of card that an interface can be.
const KINDS: [CardKind; 2] = [CardKind::Packet, CardKind::Xdp];

/// The value of what a card does not have.
const NONE: &str = "-";

/// Lists them.
pub(crate) fn run(as_json: bool) -> Result<String, Box<dyn Error>> {
    let names = interface_names().map_err(|errno| format!("if_nameindex failed: {}", errno.desc()))?;
    let mut all: Vec<ListedCard> = names.iter().flat_map(|name| of_interface(name)).collect();
    all.extend(PciNic::cards().iter().map(on_pci));
    let taps = access(TUN_DEVICE, AccessFlags::R_OK | AccessFlags::W_OK);
    let no_taps = taps.err().map(|errno| format!("{TUN_DEVICE}: {}", errno.desc()));
    Ok(if as_json { in_json(&all, no_taps) } else { in_text(&all, no_taps)? })
}

fn in_json(all: &[ListedCard], no_taps: Option<String>) -> String {
    let cards = all.iter().map(|ListedCard { choice, state, mtu, mac, refused }| {
        let refused = refused.as_ref().map(ToString::to_string);
        json!({"card": choice.to_string(), "state": state, "mtu": mtu, "mac": mac, "refused": refused})
    });
    json!({"cards": Vec::from_iter(cards), "taps_refused": no_taps}).to_string()
}

fn in_text(all: &[ListedCard], no_taps: Option<String>) -> Result<String, Box<dyn Error>> {
    let width = all.iter().map(|one| one.choice.to_string().len()).max().unwrap_or(0).max(10);
    let mut text = format!("{:width$}  {:10}  {:>5}  {:17}  usable", "card", "state", "MTU", "address");
    for ListedCard { choice, state, mtu, mac, refused } in all {
        let card = choice.to_string();
        let mtu = mtu.map_or_else(|| NONE.into(), |mtu| mtu.to_string());
        let mac = mac.as_deref().unwrap_or(NONE);
        let usable = refused.as_ref().map_or_else(|| "yes".into(), |reason| format!("no: {reason}"));
        write!(text, "\n{card:width$}  {state:10}  {mtu:>5}  {mac:17}  {usable}")?;
    }
    let usable =
        no_taps.map_or_else(|| "yes, of one's own (docs/cards.md)".into(), |reason| format!("no: {reason}"));
    for (card, usable) in [("tap:IF", usable), ("memif:PATH", "yes, of a server (docs/cards.md)".into())] {
        write!(text, "\n{card:width$}  {NONE:10}  {NONE:>5}  {NONE:17}  {usable}")?;
    }
    Ok(text)
}

/// The cards that an interface can be, which may be gone by now.
fn of_interface(name: &str) -> Vec<ListedCard> {
    let Ok(state) = interface(name) else { return Vec::new() };
    let words = match (state.has(IFF_UP), state.has(IFF_RUNNING)) {
        (false, _) => "down",
        (true, false) => "no carrier",
        (true, true) => "up",
    };
    let listed = KINDS.map(|kind| {
        let choice = CardChoice::plain(kind, name.to_owned());
        // A program that is attached to an interface for a moment may stop its frames for longer.
        let tried = if kind == CardKind::Xdp {
            XdpNic::check(&choice)
        } else {
            BenchStation::open(&choice).map(drop)
        };
        ListedCard {
            choice,
            state: words.into(),
            mtu: Some(state.mtu),
            mac: Some(WrittenMac(Mac(state.mac)).to_string()),
            refused: tried.err(),
        }
    });
    listed.into()
}

/// A card on PCI.
fn on_pci(card: &FoundCard) -> ListedCard {
    let choice = CardChoice::plain(CardKind::Pci, card.address.to_string());
    let state = card.driver.clone().unwrap_or_else(|| "no driver".into());
    let refused = PciNic::check(&choice).err();
    ListedCard { choice, state, mtu: None, mac: None, refused }
}
