//! A configuration space in memory, with devices that answer as real ones do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use super::*;

/// A function: its identity, and each base address register with the bits that can be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct PciFunction {
    pub(crate) identity: u32,
    pub(crate) command: u32,
    pub(crate) bars: [(u32, u32); 6],
}

impl PciFunction {
    /// A 32-bit memory base address of `size` bytes.
    pub(crate) fn bar32(mut self, index: usize, size: u32, address: u32) -> Self {
        self.bars[index] = (address, !(size - 1));
        self
    }

    /// A 64-bit, prefetchable one.
    pub(crate) fn bar64(mut self, index: usize, size: u64, address: u64) -> Self {
        let mask = !(size - 1);
        self.bars[index] = (address as u32 | 0b1100, mask as u32);
        self.bars[index + 1] = ((address >> 32) as u32, (mask >> 32) as u32);
        self
    }
}

/// The bus. Clones share it, as those of a real one do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space(Arc<Mutex<Functions>>);

/// The function of a device on a bus.
pub(crate) const fn at(bus: u8, device: u8, function: u8) -> DeviceFunction {
    DeviceFunction { bus, device, function }
}

type Functions = BTreeMap<(u8, u8, u8), PciFunction>;

impl Space {
    pub(crate) fn with(self, at: DeviceFunction, function: PciFunction) -> Self {
        self.0.lock().unwrap().insert((at.bus, at.device, at.function), function);
        self
    }

    pub(crate) fn get(&self, at: DeviceFunction) -> PciFunction {
        self.0.lock().unwrap()[&(at.bus, at.device, at.function)].clone()
    }
}

impl ConfigurationAccess for Space {
    fn read_word(&self, DeviceFunction { bus, device, function }: DeviceFunction, offset: u8) -> u32 {
        let space = self.0.lock().unwrap();
        let Some(function) = space.get(&(bus, device, function)) else { return u32::MAX };
        match offset {
            0 => function.identity,
            4 => function.command,
            0x10..=0x27 => function.bars[usize::from(offset - 0x10) / 4].0,
            _ => 0,
        }
    }

    fn write_word(
        &mut self,
        DeviceFunction { bus, device, function }: DeviceFunction,
        offset: u8,
        data: u32,
    ) {
        let mut space = self.0.lock().unwrap();
        let Some(function) = space.get_mut(&(bus, device, function)) else { return };
        match offset {
            4 => function.command = data & 0xFFFF,
            0x10..=0x27 => {
                let (value, mask) = &mut function.bars[usize::from(offset - 0x10) / 4];
                *value = (data & *mask) | (*value & 0xF & !*mask);
            }
            _ => {}
        }
    }

    unsafe fn unsafe_clone(&self) -> Self {
        self.clone()
    }
}

fn device(identity: u32) -> PciFunction {
    PciFunction { identity, ..PciFunction::default() }
}

#[test]
fn devices_are_found_on_the_buses_that_are_asked_for() {
    let space =
        Space::default().with(at(0, 3, 0), device(0x1111_8086)).with(at(2, 31, 7), device(0x2222_8086));
    let root = PciRoot::new(space);
    let id = |wanted: u16| move |info: &DeviceFunctionInfo| info.device_id == wanted;
    assert_eq!(find(&root, 1, id(0x1111)), Some(DeviceFunction { bus: 0, device: 3, function: 0 }));
    assert_eq!(find(&root, 2, id(0x2222)), None);
    assert_eq!(find(&root, 3, id(0x2222)), Some(DeviceFunction { bus: 2, device: 31, function: 7 }));
    assert_eq!(find(&root, 255, id(0x3333)), None);
}

#[test]
fn base_addresses_get_places_of_their_size_and_those_that_have_one_keep_it() {
    let function = device(0x1041_1AF4)
        .bar32(0, 0x20, 0)
        .bar32(1, 0x1_0000, 0xFEB0_0000)
        .bar64(2, 0x10_0000, 0)
        .bar32(4, 0x4000, 0);
    let space = Space::default().with(at(0, 1, 0), function);
    let mut root = PciRoot::new(space.clone());
    let place = DeviceFunction { bus: 0, device: 1, function: 0 };
    let mut window = AddressWindow::new(0x4000_1000, 0x100_0000);
    enable(&mut root, place, &mut window).unwrap();
    let bars: Vec<u32> = space.get(at(0, 1, 0)).bars.iter().map(|(value, _)| *value).collect();
    assert_eq!(bars, [0x4000_1000, 0xFEB0_0000, 0x4010_000C, 0, 0x4020_0000, 0]);
    assert_eq!(space.get(at(0, 1, 0)).command, 0b110, "memory and bus mastering");
    assert_eq!(memory(&mut root, place, 2), Ok((0x4010_0000, 0x10_0000)));
    assert_eq!(memory(&mut root, place, 5), Err(Cause::Device));
    let before = window;
    enable(&mut root, place, &mut window).unwrap();
    assert_eq!(window, before, "a second time nothing is left to do");
}

#[test]
fn a_window_that_is_too_small_or_out_of_reach_is_told() {
    let full = Err(Cause::Full(Resource::DeviceMemory));
    let place = DeviceFunction { bus: 0, device: 1, function: 0 };
    let enabled = |function, mut window| {
        let mut root = PciRoot::new(Space::default().with(at(0, 1, 0), function));
        enable(&mut root, place, &mut window)
    };
    assert_eq!(enabled(device(1).bar32(0, 0x2000, 0), AddressWindow::NONE), full);
    assert_eq!(enabled(device(1).bar32(0, 0x2000, 0), AddressWindow::new(0x1000, 0x2FFF)), full);
    assert_eq!(enabled(device(1).bar32(0, 0x2000, 0), AddressWindow::new(0x1000, 0x3000)), Ok(()));
    assert_eq!(enabled(device(1).bar32(0, 0x2000, 0), AddressWindow::new(1 << 32, 1 << 20)), full, "32 bits");
    assert_eq!(enabled(device(1).bar64(0, 0x2000, 0), AddressWindow::new(1 << 32, 1 << 20)), Ok(()));
    assert_eq!(enabled(device(1).bar64(0, 1 << 40, 0), AddressWindow::new(1 << 32, u64::MAX)), Ok(()));
    let mut odd = device(1);
    odd.bars[0] = (0b110, !0xFFF);
    assert_eq!(enabled(odd, AddressWindow::NONE), Err(Cause::Device), "a width that does not exist");
}

#[test]
fn registers_in_memory_are_where_each_layout_has_them() {
    for (layout, bytes) in [(ConfigLayout::Cam, 1 << 8), (ConfigLayout::Ecam, 1 << 12)] {
        let mut space = std::vec![0_u32; 2 * 256 * bytes / 4];
        let at = |bus: usize, device: usize, function: usize| (bus << 8 | device << 3 | function) * bytes / 4;
        space[at(0, 0, 0)] = 5;
        space[at(1, 31, 7) + 1] = 6;
        let base = space.as_mut_ptr().expose_provenance();
        // SAFETY: two buses are there, and are used through this value alone until it is gone.
        let mut mapped = unsafe { Mapped::new(base, layout, 2) };
        let function = |bus, device, function| DeviceFunction { bus, device, function };
        assert_eq!(mapped.read_word(function(0, 0, 0), 0), 5);
        assert_eq!(mapped.read_word(function(1, 31, 7), 4), 6);
        assert_eq!(mapped.read_word(function(2, 0, 0), 0), u32::MAX, "no such bus");
        mapped.write_word(function(2, 0, 0), 0, 1);
        mapped.write_word(function(1, 2, 3), 8, 7);
        assert_eq!(space[at(1, 2, 3) + 2], 7);
    }
}
