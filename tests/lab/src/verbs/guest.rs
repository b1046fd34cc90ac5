//! The start of a guest.

use core::time::Duration;
use std::path::Path;
use std::process::Command;

use crate::qemu;

/// Memory of a guest, MiB: programs stand in it too, and what is registered is locked.
const MEMORY_MIB: u32 = 512;
/// The device that all guests have, over a card of no network, or over the one that joins two
/// guests.
pub(super) const DEVICE: &str = "rxe0";
/// The place in the device's table of the address that a guest is given below.
pub(super) const GID_INDEX: u32 = 1;

/// The emulated machine.
pub(super) const MACHINE: qemu::Arch = qemu::Arch::X86_64;

/// The address of a guest's card.
pub(super) fn address(guest: usize) -> String {
    format!("10.0.0.{}", guest + 1)
}

/// The devices of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GuestKind {
    /// An RDMA device by the kernel's software.
    Rdma,
    /// Two network cards on PCI, behind an IOMMU, with a wire between them.
    PciCards,
}

/// The network cards on PCI of a guest: the emulator's device, and its address in the guest.
pub(super) const PCI_CARDS: [(&str, &str); 2] = [
    ("e1000e", "0000:00:10.0"),
    // It minds the IOMMU, as devices do that are no emulation.
    ("virtio-net-pci,iommu_platform=on,disable-legacy=on", "0000:00:11.0"),
];

/// A guest of a session.
#[derive(Debug)]
pub(super) struct Guest<'a> {
    pub(super) number: usize,
    pub(super) kind: GuestKind,
    /// True if another one stands at the other end of a wire.
    pub(super) has_neighbour: bool,
    pub(super) kernel: &'a Path,
    pub(super) image: &'a Path,
    /// The socket between two.
    pub(super) wire: &'a Path,
    pub(super) clock: GuestClock,
    /// The time after which it gives up and shows what it is doing.
    pub(super) limit: Duration,
}

/// The source of a guest's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GuestClock {
    /// That of this machine.
    Wall,
    /// A nanosecond for each instruction of its own; while it sleeps, none passes. What it measures
    /// does not depend on what else this machine does.
    Instructions,
}

impl Guest<'_> {
    /// The command that starts it. The first of two has to be there before the second.
    pub(super) fn command(&self) -> Command {
        let mut command = qemu::emulator("qemu-system-x86_64");
        command.args(["-nodefaults", "-no-user-config", "-smp", "1", "-m", &MEMORY_MIB.to_string()]);
        if self.clock == GuestClock::Instructions {
            command.args(["-icount", "shift=0,sleep=off"]);
        }
        command.args(["-serial", "stdio"]);
        command.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.image);
        if self.kind == GuestKind::PciCards {
            plug_cards(&mut command);
        }
        let card = match self.kind {
            GuestKind::PciCards => "pci",
            GuestKind::Rdma if self.has_neighbour => "eth0",
            GuestKind::Rdma => "dummy0",
        };
        let (guest, limit) = (self.number, self.limit.as_secs());
        // What the kernel does not know it hands to its first program.
        let words =
            format!("console=ttyS0 quiet panic=-1 aldis_guest={guest} aldis_card={card} aldis_limit={limit}");
        command.args(["-append", &words]);
        if self.has_neighbour {
            let server = if guest == 0 { "on" } else { "off" };
            let wire = self.wire.display();
            let netdev = format!("stream,id=net,server={server},addr.type=unix,addr.path={wire}");
            let card = format!("virtio-net-pci,romfile=,netdev=net,mac={}", qemu::mac(guest));
            command.args(["-netdev", &netdev, "-device", &card]);
        }
        command
    }
}

/// Gives a guest an IOMMU, and cards on one wire behind it.
fn plug_cards(command: &mut Command) {
    command.args(["-M", "q35", "-device", "intel-iommu"]);
    for (number, (device, address)) in PCI_CARDS.iter().enumerate() {
        // The number of its slot on the first bus.
        let slot = address.get(8..10).unwrap_or_default();
        let port = format!("hubport,id=port{number},hubid=0");
        let mac = qemu::mac(number);
        let card = format!("{device},addr=0x{slot},romfile=,netdev=port{number},mac={mac}");
        command.args(["-netdev", &port, "-device", &card]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aldis_shell::shell;

    fn line(number: usize, has_neighbour: bool) -> String {
        let path = Path::new("/d/x");
        let limit = Duration::from_secs(90);
        let clock = if has_neighbour { GuestClock::Wall } else { GuestClock::Instructions };
        let kind = GuestKind::Rdma;
        let guest =
            Guest { number, kind, has_neighbour, kernel: path, image: path, wire: path, clock, limit };
        shell::spell(&guest.command())
    }

    #[test]
    fn cards_on_pci_have_the_addresses_that_are_said() {
        let mut command = Command::new("x");
        plug_cards(&mut command);
        let line = shell::spell(&command);
        assert!(line.contains("-device e1000e,addr=0x10,romfile=,netdev=port0"), "{line}");
        assert!(line.contains("disable-legacy=on,addr=0x11,romfile=,netdev=port1"), "{line}");
        assert!(line.find("intel-iommu") < line.find("e1000e"), "{line}");
    }

    #[test]
    fn two_guests_stand_at_the_ends_of_a_wire() {
        let (first, second) = (line(0, true), line(1, true));
        assert!(first.contains("server=on,addr.type=unix,addr.path=/d/x"), "{first}");
        assert!(
            second.contains("server=off") && second.contains("aldis_guest=1 aldis_card=eth0"),
            "{second}"
        );
        assert!(
            first.contains("02:a1:d1:00:00:00") && second.contains("02:a1:d1:00:00:01"),
            "{first} {second}"
        );
    }

    #[test]
    fn one_guest_has_no_network() {
        let line = line(0, false);
        assert!(line.contains("aldis_card=dummy0 aldis_limit=90") && !line.contains("netdev"), "{line}");
    }

    #[test]
    fn only_a_guest_alone_counts_its_instructions() {
        let counts = |has_neighbour| line(0, has_neighbour).contains("-icount shift=0,sleep=off");
        assert_eq!([false, true].map(counts), [true, false]);
    }
}
