//! Lists of numbers on the command line: `4,6,8`, `2..65536`, `8..1Mi*4`.

use core::str::FromStr;

/// The most numbers of a list.
const LENGTH_MAX: usize = 256;

const FORMS: &str = "a number, a list as 4,6,8, or a range as 2..64 (doubling) or 8..1Mi*4 (times 4 each)";

/// Numbers in rising order, each once, at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RisingNumbers(pub(crate) Vec<u64>);

impl FromStr for RisingNumbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => numbers.push(number(part)?),
                Some((first, rest)) => range(first, rest, &mut numbers)?,
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() > LENGTH_MAX {
            return Err(format!("{} numbers, and {LENGTH_MAX} are the most", numbers.len()));
        }
        Ok(Self(numbers))
    }
}

/// The range `first..rest`, its end included if it is hit.
fn range(first: &str, rest: &str, numbers: &mut Vec<u64>) -> Result<(), String> {
    let (last, factor) = rest.split_once('*').unwrap_or((rest, "2"));
    let (first, last, factor) = (number(first)?, number(last)?, number(factor)?);
    if first == 0 || last < first || factor < 2 {
        return Err(format!("a range rises from 1 or more, by a factor of 2 or more; expected {FORMS}"));
    }
    let mut next = Some(first);
    while let Some(number) = next.filter(|number| *number <= last) {
        numbers.push(number);
        next = number.checked_mul(factor);
    }
    Ok(())
}

/// A number, `Ki`, `Mi` or `Gi` after it.
fn number(text: &str) -> Result<u64, String> {
    let units = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];
    let unit = units.iter().find_map(|(unit, times)| Some((text.strip_suffix(unit)?, *times)));
    let (digits, times) = unit.unwrap_or((text, 1));
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(times));
    number.ok_or_else(|| format!("`{text}` is no number; expected {FORMS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        for (text, numbers) in [
            ("7", vec![7]),
            ("8,2,8", vec![2, 8]),
            ("2..16", vec![2, 4, 8, 16]),
            ("3..20", vec![3, 6, 12]),
            ("8..1Ki*4,5", vec![5, 8, 32, 128, 512]),
            ("0,4Ki", vec![0, 4096]),
        ] {
            assert_eq!(text.parse(), Ok(RisingNumbers(numbers)), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "x", "-1", "4..2", "0..4", "2..8*1", "2..", "1,,2", "99999999999Gi", "2..4..8"] {
            let error = text.parse::<RisingNumbers>().unwrap_err();
            assert!(error.contains("2..64 (doubling)"), "{text}: {error}");
        }
    }
}
