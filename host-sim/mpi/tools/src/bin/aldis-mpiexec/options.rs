//! The options of other launchers, Open MPI's and MPICH's, in the words of `aldis-run`.

use std::ffi::OsString;

/// The meaning of an option.
#[derive(Clone, Copy)]
enum Means {
    /// The ranks of a program.
    Ranks,
    /// An option of the whole job with one value.
    Job(&'static str),
    /// Words for the whole job.
    Words(&'static [&'static str]),
    /// An option of one program with one value.
    Own(&'static str),
    /// A variable for all ranks, in two words.
    Variable,
    /// A variable for the ranks of one program, in two words.
    OwnVariable,
    /// The usual behaviour of `aldis-run`.
    Usual,
    /// The pinning of ranks.
    Bind,
    /// An option without an equivalent; what to do instead.
    Nothing(&'static str),
}

const PLACES: &str = "--host a:2,b:2 says how many ranks each host has, in order";
const TRANSPORTS: &str = "--transport and the variables of docs/environment.md say how messages travel";

/// Each option by its names behind one dash or two.
const OPTIONS: [(&[&str], Means); 25] = [
    (&["n", "np", "c"], Means::Ranks),
    (&["host", "hosts", "H"], Means::Job("--host")),
    (&["hostfile", "f", "machinefile"], Means::Job("--hostfile")),
    (&["timeout"], Means::Job("--timeout")),
    (&["transport"], Means::Job("--transport")),
    (&["x"], Means::Job("--genv")),
    (&["genv"], Means::Variable),
    (&["env"], Means::OwnVariable),
    (&["wdir", "wd"], Means::Own("--wdir")),
    (&["bind-to", "binding"], Means::Bind),
    (&["l", "prepend-rank", "tag-output"], Means::Words(&["--output", "prefix"])),
    (&["q", "quiet"], Means::Words(&["--quiet"])),
    (&["oversubscribe", "allow-run-as-root", "genvall", "envall"], Means::Usual),
    (&["ppn", "perhost", "N", "npernode"], Means::Nothing(PLACES)),
    (&["map-by", "rank-by", "ranks-per-proc"], Means::Nothing(PLACES)),
    (&["nooversubscribe"], Means::Nothing(PLACES)),
    (&["rankfile", "rf"], Means::Nothing(PLACES)),
    (&["mca", "gmca", "prtemca", "pmixmca"], Means::Nothing(TRANSPORTS)),
    (&["iface"], Means::Nothing("ALDIS_TCP_INCLUDE names interfaces")),
    (&["genvlist", "envlist"], Means::Nothing("-x NAME passes one variable on")),
    (&["genvnone", "envnone"], Means::Nothing("env -i in front of the program empties its environment")),
    (&["output-filename", "outfile-pattern"], Means::Nothing("-l puts each rank in front of its lines")),
    (
        &["launcher", "launcher-exec", "rmk"],
        Means::Nothing("aldis-run --ssh names what starts a command elsewhere"),
    ),
    (&["configfile", "app"], Means::Nothing("a : between them stands in front of each further program")),
    (&["prefix", "path"], Means::Nothing("give the program's path")),
];

/// The request of a command line.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Help,
    Version,
    Run(Job),
}

/// A job in the words of `aldis-run`.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Job {
    /// Options of the whole job.
    pub(crate) options: Vec<OsString>,
    /// The options, name and arguments of each program.
    pub(crate) programs: Vec<Vec<OsString>>,
}

/// Reads the command line behind this program's own name.
pub(crate) fn read(words: &[OsString]) -> Result<Asked, String> {
    let mut job = Job::default();
    for part in words.split(|word| word == ":") {
        if let Some(asked) = read_part(part, &mut job)? {
            return Ok(asked);
        }
    }
    Ok(Asked::Run(job))
}

/// Reads a program with what stands in front of it.
fn read_part(part: &[OsString], job: &mut Job) -> Result<Option<Asked>, String> {
    let (mut rest, mut ranks, mut own) = (part.iter(), OsString::from("1"), Vec::new());
    while let Some(word) = rest.as_slice().first().filter(|word| word.to_string_lossy().starts_with('-')) {
        rest.next();
        let text = word.to_string_lossy();
        let (option, joined) = match text.split_once('=') {
            Some((option, value)) => (option, Some(OsString::from(value))),
            None => (&*text, None),
        };
        let name = option.trim_start_matches('-');
        match name {
            "h" | "help" => return Ok(Some(Asked::Help)),
            "V" | "version" => return Ok(Some(Asked::Version)),
            _ => {}
        }
        let known = OPTIONS.iter().find(|(names, _)| names.contains(&name));
        let Some((_, means)) = known else {
            return Err(format!(
                "there is no option {option}; aldis-mpiexec --help lists those that there are"
            ));
        };
        let mut joined = joined.into_iter();
        let mut value = || {
            let found = joined.next().or_else(|| rest.next().cloned());
            found.ok_or_else(|| format!("{option} needs a value"))
        };
        match means {
            Means::Ranks => ranks = value()?,
            Means::Job(ours) => job.options.extend([OsString::from(*ours), value()?]),
            Means::Words(ours) => job.options.extend(ours.iter().map(OsString::from)),
            Means::Own(ours) => own.extend([OsString::from(*ours), value()?]),
            Means::Variable => job.options.extend(["--genv".into(), assignment(value()?, value()?)]),
            Means::OwnVariable => own.extend(["--env".into(), assignment(value()?, value()?)]),
            Means::Usual => {}
            Means::Bind => job.options.extend(binding(option, &value()?)?),
            Means::Nothing(instead) => {
                return Err(format!("{option} has nothing that stands for it: {instead}"));
            }
        }
    }
    if rest.as_slice().is_empty() {
        return Err("no program is named; aldis-mpiexec -n 4 ./program starts four ranks of it".into());
    }
    own.splice(0..0, ["-n".into(), ranks]);
    own.extend(rest.cloned());
    job.programs.push(own);
    Ok(None)
}

/// `NAME=VALUE`.
fn assignment(mut name: OsString, value: OsString) -> OsString {
    name.push("=");
    name.push(value);
    name
}

fn binding(option: &str, to: &OsString) -> Result<[OsString; 2], String> {
    match to.to_str() {
        Some(place @ ("core" | "none")) => Ok(["--bind".into(), place.into()]),
        _ => Err(format!("{option} {} is not known: ranks are bound to `core` or `none`", to.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[track_caller]
    fn job(line: &str, options: &str, programs: &[&str]) {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        let programs = programs.iter().map(|one| words(one)).collect();
        assert_eq!(asked(line), Ok(Asked::Run(Job { options: words(options), programs })), "{line}");
    }

    #[test]
    fn other_launchers_options_are_understood() {
        job(
            "-np 3 -genv A b -genv C -x ./program -n 7 -genv D e",
            "--genv A=b --genv C=-x",
            &["-n 3 ./program -n 7 -genv D e"],
        );
        job("./program", "", &["-n 1 ./program"]);
        job(
            "--np 2 -x PATH -x A=1 --bind-to core --tag-output --oversubscribe --host a:1,b:1 p",
            "--genv PATH --genv A=1 --bind core --output prefix --host a:1,b:1",
            &["-n 2 p"],
        );
        job("--host=a:2 --timeout=3 -f hosts p", "--host a:2 --timeout 3 --hostfile hosts", &["-n 1 p"]);
    }

    #[test]
    fn programs_have_options_of_their_own() {
        job(
            "-n 2 -env A 1 -wdir /x a y : -np 3 -genv B 2 b : c",
            "--genv B=2",
            &["-n 2 --env A=1 --wdir /x a y", "-n 3 b", "-n 1 c"],
        );
    }

    #[test]
    fn what_nothing_stands_for_is_refused_by_name() {
        for (line, why) in [
            ("-n 2 -ppn 2 p", "-ppn has nothing that stands for it: --host a:2,b:2"),
            ("-n 2 --map-by core p", "--map-by has nothing"),
            ("--mca btl tcp -n 2 p", "--mca has nothing that stands for it: --transport"),
            ("-n 2 --bind-to socket p", "--bind-to socket is not known"),
            ("-n 2 -bogus 3 p", "there is no option -bogus; aldis-mpiexec --help"),
            ("-n", "-n needs a value"),
            ("-n 2", "no program is named"),
            ("-n 2 a :", "no program is named"),
        ] {
            let error = asked(line).unwrap_err();
            assert!(error.starts_with(why), "{line}: {error}");
        }
        assert_eq!(asked("-n 2 --help"), Ok(Asked::Help));
        assert_eq!(asked("--version"), Ok(Asked::Version));
    }
}
