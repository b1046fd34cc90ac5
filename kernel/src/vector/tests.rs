use std::vec::Vec;

use super::*;

/// A loop with a result to look at: halves of `from`, added up in `into`.
struct Add<'l>(&'l mut [f32], &'l [f32]);

impl Work for Add<'_> {
    #[inline(always)]
    fn run(self) {
        self.0.iter_mut().zip(self.1).for_each(|(into, from)| *into += from * 0.5);
    }
}

#[test]
fn every_width_runs_the_loop_once() {
    let from: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let expected: Vec<f32> = from.iter().map(|from| 1.0 + from * 0.5).collect();
    for width in Width::all() {
        let mut into = std::vec![1.0; 1000];
        width.run(Add(&mut into, &from));
        assert_eq!(into, expected, "{}", width.name());
    }
    for count in [0, 1, FEW_BYTES / 4 - 1, FEW_BYTES / 4, 1000] {
        let mut into = std::vec![1.0; count];
        widest(count * 4, Add(&mut into, &from));
        assert_eq!(into, expected[..count]);
    }
    assert_eq!(Width::all().last(), Some(Width::widest()));
    assert_eq!(Width::all().next(), Some(Width::BASELINE));
}

/// The width is what the standard library finds by its own means.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_processor_has_what_is_used() {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("f16c");
    let avx512 = avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
    let expected = if avx512 {
        "avx512"
    } else if avx2 {
        "avx2"
    } else {
        "sse2"
    };
    assert_eq!(Width::widest().name(), expected);
    assert_eq!(Halves::of_processor().is_some(), avx2);
}
