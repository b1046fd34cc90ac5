//! The uses of calls that a campaign makes fail, and how.

use core::num::NonZeroU32;

use aldis_shell::dice::Dice;

use aldis_sys::Call;
use aldis_sys::plan::{CallPlan, Outcome, PlannedProcess, Rule, Uses};

use super::job::Use;
use super::outcomes;

/// The plan in which this use comes to this.
fn plan(process: PlannedProcess, call: Call, uses: Uses, outcome: Outcome) -> CallPlan {
    CallPlan { rules: vec![Rule { process: Some(process), call, uses, outcome }] }
}

fn first(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}

/// Every use and every outcome, one at a time.
pub(super) fn all(uses: &[Use]) -> Vec<CallPlan> {
    let mut plans = Vec::new();
    for Use { process, call, number } in uses {
        for outcome in outcomes::of(*call) {
            let uses = Uses { first: first(*number), step: None };
            let plan = plan(*process, *call, uses, outcome);
            // Agents count alike: the uses of one are those of the other.
            if !plans.contains(&plan) {
                plans.push(plan);
            }
        }
    }
    plans
}

/// Every use once, with an error that the dice draw; a call that no system refuses is left out.
pub(super) fn each(dice: &mut Dice, uses: &[Use]) -> Vec<CallPlan> {
    let mut plans: Vec<CallPlan> = Vec::new();
    for Use { process, call, number } in uses {
        let errors = outcomes::errors(*call);
        if errors.is_empty() {
            continue;
        }
        let uses = Uses { first: first(*number), step: None };
        let rule = Rule {
            process: Some(*process),
            call: *call,
            uses,
            outcome: Outcome::Fails(*dice.one_of(errors)),
        };
        let is_there = |plan: &CallPlan| {
            plan.rules
                .iter()
                .any(|old| (old.process, old.call, old.uses) == (rule.process, rule.call, rule.uses))
        };
        if !plans.iter().any(is_there) {
            plans.push(CallPlan { rules: vec![rule] });
        }
    }
    plans
}

/// Draws a plan: a process's call, rare ones as often as frequent ones, from one of its uses on.
pub(super) fn draw(dice: &mut Dice, uses: &[Use]) -> CallPlan {
    let mut calls: Vec<(PlannedProcess, Call)> = Vec::new();
    for Use { process, call, .. } in uses {
        if !calls.contains(&(*process, *call)) {
            calls.push((*process, *call));
        }
    }
    let (process, call) = *dice.one_of(&calls);
    let of_it = |of: &&Use| of.process == process && of.call == call;
    let numbers: Vec<u32> = uses.iter().filter(of_it).map(|of| of.number).collect();
    let outcome = *dice.one_of(&outcomes::of(call));
    let step = match dice.below(4) {
        // A call that stops its process each time, or is interrupted each time, is no failure of a
        // process.
        0 if !outcomes::is_harmless(call, outcome) => Some(NonZeroU32::MIN),
        1 => Some(first(2 + dice.below(8) as u32)),
        _ => None,
    };
    let step = step.filter(|_| outcome != Outcome::Stops);
    plan(process, call, Uses { first: first(*dice.one_of(&numbers)), step }, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses() -> Vec<Use> {
        let of = |process, call, number| Use { process, call, number };
        let reads = (1..=20).map(|number| of(PlannedProcess::Rank(0), Call::Read, number));
        reads
            .chain([of(PlannedProcess::Launcher, Call::Mmap, 1), of(PlannedProcess::Launcher, Call::Mmap, 1)])
            .collect()
    }

    #[test]
    fn all_have_each_use_and_outcome_once() {
        let plans = all(&uses());
        let expected = 20 * outcomes::of(Call::Read).len() + outcomes::of(Call::Mmap).len();
        assert_eq!(plans.len(), expected);
    }

    #[test]
    fn each_use_has_one_error() {
        let plans = each(&mut Dice(3), &uses());
        assert_eq!(plans.len(), 21);
        let fails = |plan: &CallPlan| plan.rules.iter().all(|rule| matches!(rule.outcome, Outcome::Fails(_)));
        assert!(plans.iter().all(fails));
        assert_eq!(plans, each(&mut Dice(3), &uses()));
    }

    #[test]
    fn a_seed_draws_the_same_plan_and_seeds_reach_every_call_and_each_way_to_go_on() {
        let plans: Vec<CallPlan> = (0..300).map(|seed| draw(&mut Dice(seed), &uses())).collect();
        assert_eq!(plans[7], draw(&mut Dice(7), &uses()));
        let any = |is: fn(&Rule) -> bool| plans.iter().any(|plan| plan.rules.iter().any(is));
        assert!(any(|rule| rule.call == Call::Mmap) && any(|rule| rule.call == Call::Read));
        assert!(any(|rule| rule.uses.step == Some(NonZeroU32::MIN)));
        assert!(any(|rule| rule.uses.step.is_some_and(|step| step.get() > 1)));
        assert!(any(|rule| rule.uses.step.is_none()));
        for plan in &plans {
            assert_eq!(plan.to_string().parse(), Ok(plan.clone()), "a plan is replayed from its text");
        }
    }
}
