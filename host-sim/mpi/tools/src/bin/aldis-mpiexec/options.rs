//! The options of other launchers, Open MPI's and MPICH's, in the words of `aldis-run`.

use core::fmt::Display;
use std::ffi::{OsStr, OsString};

use aldis_sys::file::read_to_string;

/// The meaning of an option.
#[derive(Clone, Copy)]
enum Means {
    /// The ranks of a program.
    Ranks,
    /// The ranks that each host takes.
    PerHost,
    /// The order in which ranks are given to hosts.
    Order,
    /// A number of seconds for the whole job.
    Seconds(&'static str),
    /// A file of programs with their options, one a line.
    Programs,
    /// Variables of this environment, with commas between them, for all ranks or those of one
    /// program.
    Variables(&'static str),
    /// A variable for all ranks: by its name alone as it is here, if it is.
    Exported,
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
const OPTIONS: [(&[&str], Means); 27] = [
    (&["n", "np", "c"], Means::Ranks),
    (&["host", "hosts", "H"], Means::Job("--host")),
    (&["hostfile", "f", "machinefile"], Means::Job("--hostfile")),
    (&["timeout"], Means::Seconds("--timeout")),
    (&["transport"], Means::Job("--transport")),
    (&["x"], Means::Exported),
    (&["genv"], Means::Variable),
    (&["env"], Means::OwnVariable),
    (&["wdir", "wd"], Means::Own("--wdir")),
    (&["bind-to", "binding"], Means::Bind),
    (&["l", "prepend-rank", "tag-output"], Means::Words(&["--output", "prefix"])),
    (&["q", "quiet"], Means::Words(&["--quiet"])),
    (&["oversubscribe", "allow-run-as-root", "genvall", "envall"], Means::Usual),
    (&["ppn", "perhost", "N", "npernode"], Means::PerHost),
    (&["map-by", "rank-by"], Means::Order),
    (&["genvlist"], Means::Variables("--genv")),
    (&["envlist"], Means::Variables("--env")),
    (&["configfile", "app"], Means::Programs),
    (&["ranks-per-proc"], Means::Nothing(PLACES)),
    (&["nooversubscribe"], Means::Nothing(PLACES)),
    (&["rankfile", "rf"], Means::Nothing(PLACES)),
    (&["mca", "gmca", "prtemca", "pmixmca"], Means::Nothing(TRANSPORTS)),
    (&["iface"], Means::Job("--tcp-include")),
    (&["genvnone", "envnone"], Means::Nothing("env -i in front of the program empties its environment")),
    (&["output-filename", "outfile-pattern"], Means::Nothing("-l puts each rank in front of its lines")),
    (
        &["launcher", "launcher-exec", "rmk"],
        Means::Nothing("aldis-run --ssh names what starts a command elsewhere"),
    ),
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

/// Reads the command line behind this program's own name. Programs find the library in the folder
/// `lib`, whatever search path they are given.
pub(crate) fn read(words: &[OsString], lib: &OsStr) -> Result<Asked, String> {
    let mut reading = Reading { lib, job: Job::default(), own: ProgramWords::default() };
    for part in words.split(|word| word == ":") {
        if let Some(asked) = reading.part(part)? {
            return Ok(asked);
        }
    }
    Ok(Asked::Run(reading.job))
}

/// The options of the program that is read.
#[derive(Default)]
struct ProgramWords {
    ranks: Option<OsString>,
    words: Vec<OsString>,
}

/// A command line of which a part has been read.
struct Reading<'a> {
    lib: &'a OsStr,
    job: Job,
    own: ProgramWords,
}

impl Reading<'_> {
    /// Reads a program with what stands in front of it.
    fn part(&mut self, part: &[OsString]) -> Result<Option<Asked>, String> {
        let mut rest = part.iter();
        self.own = ProgramWords::default();
        while let Some(word) = rest.as_slice().first().filter(|word| word.to_string_lossy().starts_with('-'))
        {
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
            if let Means::Programs = means {
                let file = value()?;
                return if rest.as_slice().is_empty() {
                    self.file(option, &file)
                } else {
                    Err(format!("{option} {} has to come last: the file names the programs", file.display()))
                };
            }
            self.option(*means, option, &mut value)?;
        }
        self.program(rest.as_slice())
    }

    /// Takes an option.
    fn option(
        &mut self,
        means: Means,
        option: &str,
        value: &mut dyn FnMut() -> Result<OsString, String>,
    ) -> Result<(), String> {
        let (lib, options) = (self.lib, &mut self.job.options);
        match means {
            Means::Ranks => self.own.ranks = Some(number(option, value()?)?),
            Means::PerHost => options.extend(["--per-host".into(), number(option, value()?)?]),
            Means::Order => options.extend(order(option, &value()?)?),
            Means::Seconds(ours) => options.extend([ours.into(), seconds(option, value()?)?]),
            Means::Job(ours) => options.extend([OsString::from(ours), value()?]),
            Means::Words(ours) => options.extend(ours.iter().map(OsString::from)),
            Means::Own(ours) => self.own.words.extend([OsString::from(ours), value()?]),
            Means::Variable => {
                options.extend(["--genv".into(), searching(assignment(value()?, value()?), lib)])
            }
            Means::OwnVariable => {
                let variable = searching(assignment(value()?, value()?), lib);
                self.own.words.extend(["--env".into(), variable]);
            }
            Means::Exported => options.extend(exported("--genv", value()?, lib)),
            Means::Variables(ours) => {
                let names = value()?;
                let names = names.to_string_lossy();
                let words = names.split(',').flat_map(|name| exported(ours, name.into(), lib));
                if ours == "--env" { self.own.words.extend(words) } else { options.extend(words) }
            }
            Means::Usual | Means::Programs => {}
            Means::Bind => options.extend(binding(option, &value()?)?),
            Means::Nothing(instead) => {
                return Err(format!("{option} has nothing that stands for it: {instead}"));
            }
        }
        Ok(())
    }

    /// Takes a program and its arguments, behind its options.
    fn program(&mut self, command: &[OsString]) -> Result<Option<Asked>, String> {
        if command.is_empty() {
            return Err("no program is named; aldis-mpiexec -n 4 ./program starts four ranks of it".into());
        }
        let ProgramWords { ranks, words } = core::mem::take(&mut self.own);
        // So many a host, of one host, are so many.
        let each = self.job.value("--per-host").filter(|_| self.job.value("--host").is_none());
        let each = each.filter(|_| self.job.value("--hostfile").is_none()).cloned();
        let ranks = ["-n".into(), ranks.or(each).unwrap_or_else(|| "1".into())];
        self.job.programs.push(ranks.into_iter().chain(words).chain(command.iter().cloned()).collect());
        Ok(None)
    }

    /// Reads the programs of a file: one a line with its options; `#` begins a comment.
    fn file(&mut self, option: &str, path: &OsStr) -> Result<Option<Asked>, String> {
        let of_file = |error: &dyn Display| format!("{option} {}: {error}", path.display());
        let text = read_to_string(path).map_err(|error| of_file(&error))?;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let asked = self.part(&words(line)).map_err(|error| of_file(&error))?;
            if asked.is_some() {
                return Ok(asked);
            }
        }
        if self.job.programs.is_empty() { Err(of_file(&"no program in it")) } else { Ok(None) }
    }
}

impl Job {
    fn value(&self, option: &str) -> Option<&OsString> {
        let place = self.options.iter().rposition(|word| word == option)?;
        self.options.get(place + 1)
    }
}

/// Words between blanks; quotes hold blanks.
fn words(line: &str) -> Vec<OsString> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take().map(OsString::from)),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word.map(OsString::from));
    words
}

/// A number of ranks.
fn number(option: &str, value: OsString) -> Result<OsString, String> {
    let is_number = value.to_str().and_then(|text| text.parse::<u32>().ok()).is_some_and(|ranks| ranks > 0);
    if is_number { Ok(value) } else { Err(format!("{option} {}: not a number of ranks", value.display())) }
}

fn seconds(option: &str, value: OsString) -> Result<OsString, String> {
    let is_time = value.to_str().and_then(|text| text.parse::<f64>().ok()).is_some_and(|time| time > 0.0);
    if is_time { Ok(value) } else { Err(format!("{option} {}: not a number of seconds", value.display())) }
}

/// The words for an order in which ranks are given to hosts: host by host, as they are, or so many
/// a host (`ppr:2:node`).
fn order(option: &str, value: &OsString) -> Result<Vec<OsString>, String> {
    let text = value.to_string_lossy().to_lowercase();
    let parts: Vec<&str> = text.split(':').filter(|part| *part != "oversubscribe").collect();
    match parts.as_slice() {
        ["" | "slot" | "core" | "hwthread" | "package" | "socket" | "numa"] | [] => Ok(Vec::new()),
        ["ppr", each, "node"] => Ok(vec!["--per-host".into(), number(option, each.into())?]),
        _ => Err(format!("{option} {} has nothing that stands for it: {PLACES}", value.display())),
    }
}

/// `NAME=VALUE`.
fn assignment(mut name: OsString, value: OsString) -> OsString {
    name.push("=");
    name.push(value);
    name
}

/// The words that pass a variable on; none if it is to be as it is here, where there is none.
fn exported(ours: &'static str, variable: OsString, lib: &OsStr) -> Vec<OsString> {
    let is_there = variable.to_string_lossy().contains('=') || std::env::var_os(&variable).is_some();
    if is_there { vec![ours.into(), searching(variable, lib)] } else { Vec::new() }
}

const SEARCH_PATH: &str = "LD_LIBRARY_PATH";

/// A variable, with the folder of the library in front if it is the search path for libraries.
fn searching(variable: OsString, lib: &OsStr) -> OsString {
    let text = variable.to_string_lossy();
    let rest = match text.strip_prefix(SEARCH_PATH) {
        Some("") => std::env::var_os(SEARCH_PATH).unwrap_or_default(),
        Some(rest) if rest.starts_with('=') => rest.trim_start_matches('=').into(),
        _ => return variable,
    };
    let mut value = lib.to_owned();
    if !rest.is_empty() {
        value.push(":");
        value.push(rest);
    }
    assignment(SEARCH_PATH.into(), value)
}

fn binding(option: &str, to: &OsString) -> Result<[OsString; 2], String> {
    match to.to_str() {
        Some("core" | "cpu" | "hwthread") => Ok(["--bind".into(), "core".into()]),
        Some("none" | "board" | "machine" | "user") => Ok(["--bind".into(), "none".into()]),
        _ => Err(format!("{option} {} is not known: ranks are bound to `core` or `none`", to.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>(), "/lib".as_ref())
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
    fn ranks_a_host_and_orders_are_understood() {
        job("-n 4 -ppn 2 -host a,b p", "--per-host 2 --host a,b", &["-n 4 p"]);
        job("-N 3 p", "--per-host 3", &["-n 3 p"]);
        job("--map-by ppr:2:node -np 4 p", "--per-host 2", &["-n 4 p"]);
        job("--map-by core:OVERSUBSCRIBE --rank-by slot -np 4 p", "", &["-n 4 p"]);
        job("-bind-to hwthread -iface lo -n 2 p", "--bind core --tcp-include lo", &["-n 2 p"]);
    }

    #[test]
    fn variables_are_passed_on_where_there_are_any() {
        job(
            "-n 2 -genvlist PATH,NO_SUCH,HOME -envlist PATH -x NO_SUCH p",
            "--genv PATH --genv HOME",
            &["-n 2 --env PATH p"],
        );
        job("-x LD_LIBRARY_PATH=/there p", "--genv LD_LIBRARY_PATH=/lib:/there", &["-n 1 p"]);
        job("-env LD_LIBRARY_PATH /there p", "", &["-n 1 --env LD_LIBRARY_PATH=/lib:/there p"]);
    }

    #[test]
    fn a_file_names_programs() {
        let path = std::env::temp_dir().join(format!("aldis-mpiexec-{}", std::process::id()));
        let text = "# programs\n-n 1 ./a 'b c'\n\n-n 2 -env A 1 -wdir /x d\n";
        std::fs::write(&path, text).unwrap();
        let line = ["-l".into(), "-configfile".into(), path.clone().into_os_string()];
        let found = read(&line, "/lib".as_ref());
        std::fs::remove_file(path).unwrap();
        let programs = [vec!["-n", "1", "./a", "b c"], vec!["-n", "2", "--env", "A=1", "--wdir", "/x", "d"]];
        let programs = programs.map(|words| words.into_iter().map(OsString::from).collect()).into();
        let options = vec!["--output".into(), "prefix".into()];
        assert_eq!(found, Ok(Asked::Run(Job { options, programs })));
    }

    #[test]
    fn what_nothing_stands_for_is_refused_by_name() {
        for (line, why) in [
            ("-n 2 --map-by node p", "--map-by node has nothing that stands for it: --host a:2,b:2"),
            ("-np none p", "-np none: not a number of ranks"),
            ("-n 2 -ppn 0 p", "-ppn 0: not a number of ranks"),
            ("-n 2 --timeout soon p", "--timeout soon: not a number of seconds"),
            ("-configfile /no/such/file", "-configfile /no/such/file: "),
            ("-configfile file p", "-configfile file has to come last"),
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
