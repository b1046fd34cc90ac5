//! Devices as a folder of the tests' own describes them. Cards themselves are tried in a guest, by
//! `cargo xtask test --step cards`.

use std::fs;
use std::os::unix::fs::symlink;

use aldis_kit::scratch::ScratchFolder;

use super::found::{PciGroup, PciModel, network_cards};
use super::*;

const NIC: &str = "0000:00:10.0";

/// Describes a device: vendor, number and class.
fn device(folder: &Path, address: &str, [vendor, number, class]: [&str; 3]) {
    let device = folder.join(address);
    fs::create_dir_all(&device).unwrap();
    for (name, text) in [("vendor", vendor), ("device", number), ("class", class)] {
        fs::write(device.join(name), format!("{text}\n")).unwrap();
    }
}

/// Gives a device a driver, and a group with a name and these members.
fn bind(folder: &Path, address: &str, driver: &str) {
    let _ = fs::remove_file(folder.join(address).join("driver"));
    symlink(format!("../../../../bus/pci/drivers/{driver}"), folder.join(address).join("driver")).unwrap();
}

fn group(folder: &Path, address: &str, number: &str, members: &[&str]) {
    let group = folder.join("groups").join(number);
    for member in members {
        fs::create_dir_all(group.join("devices").join(member)).unwrap();
    }
    symlink(group, folder.join(address).join("iommu_group")).unwrap();
}

fn found(folder: &Path) -> FoundCard {
    FoundCard::at(folder, NIC.parse().unwrap()).unwrap()
}

fn text(error: PciError) -> String {
    CardError::Pci { address: NIC.parse().unwrap(), error }.to_string()
}

#[test]
fn a_card_is_a_processs_once_vfio_pci_has_it() {
    let folder = ScratchFolder::new("pci-found");
    let folder = folder.path();
    device(folder, NIC, ["0x8086", "0x10d3", "0x020000"]);
    fs::create_dir_all(folder.join(NIC).join("net/eth1")).unwrap();
    group(folder, NIC, "12", &[NIC, "0000:00:10.1", "0000:00:10.2"]);
    bind(folder, NIC, "e1000e");
    let told = text(found(folder).judge().unwrap_err());
    assert!(
        told.starts_with("the system's driver e1000e has 0000:00:10.0 (eth1); hand it to vfio-pci"),
        "{told}"
    );
    assert!(
        told.contains("echo 0000:00:10.0 > /sys/bus/pci/devices/0000:00:10.0/driver/unbind; echo"),
        "{told}"
    );
    assert!(!told.contains("noiommu"), "{told}");
    bind(folder, NIC, "vfio-pci");
    let card = found(folder);
    let of_twelve = PciGroup { number: "12".into(), has_iommu: true };
    assert_eq!(card.judge(), Ok((PciModel::E1000e, &of_twelve)));
    assert_eq!(of_twelve.path(), "/dev/vfio/12");
    // Of its neighbours one is handed over, one is the system's.
    for (neighbour, driver) in [("0000:00:10.1", "vfio-pci"), ("0000:00:10.2", "ahci")] {
        device(folder, neighbour, ["0x8086", "0x2922", "0x010601"]);
        bind(folder, neighbour, driver);
    }
    assert_eq!(card.neighbours(folder), ["0000:00:10.2"]);
    fs::write(folder.join(NIC).join("iommu_group/name"), "vfio-noiommu\n").unwrap();
    let card = found(folder);
    let (_, group) = card.judge().unwrap();
    assert_eq!((group.has_iommu, group.path().as_str()), (false, "/dev/vfio/noiommu-12"));
}

#[test]
fn a_card_without_an_iommu_or_a_driver_is_refused_with_the_remedy() {
    let folder = ScratchFolder::new("pci-told");
    let folder = folder.path();
    device(folder, NIC, ["0x1af4", "0x1041", "0x020000"]);
    device(folder, "0000:00:1f.0", ["0x8086", "0x2918", "0x060100"]);
    device(folder, "0000:02:00.0", ["0x15b3", "0x1017", "0x020000"]);
    fs::create_dir_all(folder.join(NIC).join("virtio0/net/eth9")).unwrap();
    assert_eq!(found(folder).interface.as_deref(), Some("eth9"));
    let told = text(found(folder).judge().unwrap_err());
    assert!(told.starts_with("no driver has 0000:00:10.0; hand it to vfio-pci"), "{told}");
    assert!(told.contains("enable_unsafe_noiommu_mode") && !told.contains("unbind"), "{told}");
    let addresses: Vec<String> = network_cards(folder).iter().map(|card| card.address.to_string()).collect();
    assert_eq!(addresses, [NIC, "0000:02:00.0"]);
    let other = FoundCard::at(folder, "0000:02:00.0".parse().unwrap()).unwrap();
    let told = text(other.judge().unwrap_err());
    assert!(told.contains("is 15b3:1017, for which there is no driver here"), "{told}");
    assert!(told.contains("8086:10d3 (82574L), 8086:100e (82540EM), 1af4:1041 and 1af4:1000"), "{told}");
    let told = text(FoundCard::at(folder, "0000:09:00.0".parse().unwrap()).unwrap_err());
    assert!(told.ends_with("network cards are 0000:00:10.0, 0000:02:00.0"), "{told}");
    // What is no number is no device.
    fs::write(folder.join(NIC).join("vendor"), "8086\n").unwrap();
    assert!(FoundCard::at(folder, NIC.parse().unwrap()).is_err());
}

#[test]
fn each_refusal_names_the_card_and_a_remedy() {
    for (error, remedy) in [
        (PciError::NoVfio { has_iommu: true }, "there is no /dev/vfio/vfio; hand it to vfio-pci"),
        (PciError::NoVfio { has_iommu: false }, "the card can then write to all memory"),
        (
            PciError::NoPermission { path: "/dev/vfio/3".into(), has_iommu: true },
            "sudo chown $USER /dev/vfio/3",
        ),
        (PciError::NoPermission { path: "/dev/vfio/noiommu-3".into(), has_iommu: false }, "CAP_SYS_RAWIO"),
        (PciError::NotViable { others: vec!["0000:00:10.1".into()] }, "with 0000:00:10.1, which"),
        (PciError::InUse, "each rank needs a card of its own"),
        (PciError::NoType1, "modprobe vfio_iommu_type1"),
        (PciError::NoInterruptRemapping, "allow_unsafe_interrupts"),
        (PciError::LockedMemory { bytes: 2 << 20 }, "may not lock 2048 KiB"),
        (PciError::NoHugePage, "nr_hugepages"),
        (PciError::NoPhysicalAddress, "CAP_SYS_ADMIN"),
        (PciError::PastIommu, "iommu_platform=on"),
        (PciError::OwnAddress, "the first of two cards"),
        (PciError::Withdrawn, "vfio-pci was unbound from it"),
    ] {
        let told = text(error);
        assert!(told.contains(NIC) && told.contains(remedy), "{told}");
    }
    let is_final = |error| CardError::Pci { address: NIC.parse().unwrap(), error }.is_final();
    assert!(is_final(PciError::Withdrawn) && is_final(PciError::Gone) && !is_final(PciError::InUse));
}

/// The host has no such device, and says so; a guest has.
#[test]
fn what_is_not_there_cannot_be_opened() {
    let choice: CardChoice = "pci:ffff:ff:1f.7".parse().unwrap();
    for error in [PciNic::open(&choice).map(drop).unwrap_err(), PciNic::check(&choice).unwrap_err()] {
        assert!(matches!(error, CardError::Pci { error: PciError::NoDevice { .. }, .. }), "{error}");
    }
    let odd = CardChoice { interface: "eth0".into(), ..choice };
    assert!(matches!(PciNic::check(&odd), Err(CardError::NoInterface { .. })));
}
