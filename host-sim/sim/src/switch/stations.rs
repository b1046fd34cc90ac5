//! The table of the ports behind which the stations live.

use std::collections::HashMap;

use aldis_hal::nic::Mac;

/// Stations that are remembered. Frames for others go to every port, as they do for a station that
/// has not spoken.
pub const STATIONS_MAX: usize = 4096;

/// The filtering database of IEEE Std 802.1Q, 8.8, without ageing: a job is short, and a station
/// that moves is learned anew by its first frame.
#[derive(Debug, Default)]
pub(super) struct Stations(HashMap<[u8; 6], usize>);

impl Stations {
    /// `station` has sent something to `port`. Group addresses are no stations.
    pub(super) fn learn(&mut self, station: Mac, port: usize) {
        let known = self.0.len() < STATIONS_MAX || self.0.contains_key(&station.0);
        if !is_group(station) && known {
            self.0.insert(station.0, port);
        }
    }

    /// Returns the port at which `station` lives, if that is known and it is a single station.
    pub(super) fn port(&self, station: Mac) -> Option<usize> {
        self.0.get(&station.0).copied()
    }
}

/// Returns true if an address is one of many stations: the lowest bit of its first byte.
const fn is_group(Mac([first, ..]): Mac) -> bool {
    first & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_move_and_groups_are_none() {
        let mut stations = Stations::default();
        let (one, all) = (Mac([2, 0, 0, 0, 0, 1]), Mac([0xFF; 6]));
        stations.learn(one, 3);
        stations.learn(all, 4);
        assert_eq!((stations.port(one), stations.port(all)), (Some(3), None));
        stations.learn(one, 5);
        assert_eq!(stations.port(one), Some(5));
    }

    #[test]
    fn a_full_table_still_follows_whom_it_knows() {
        let mut stations = Stations::default();
        let station = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            Mac([2, 0, a, b, c, d])
        };
        (0..=STATIONS_MAX as u32).for_each(|number| stations.learn(station(number), 1));
        assert_eq!(stations.port(station(STATIONS_MAX as u32)), None);
        stations.learn(station(0), 2);
        assert_eq!(stations.port(station(0)), Some(2));
    }
}
