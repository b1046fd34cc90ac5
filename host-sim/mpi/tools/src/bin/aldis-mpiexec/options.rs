//! The options of other launchers, Open MPI's and MPICH's, in the words of `aldis-run`.

use core::fmt::Display;
use std::ffi::{OsStr, OsString};

use aldis_sys::file::read_to_string;

use crate::table::{Means, OPTIONS, PLACES};
use crate::values::{self, ValueCheck};

/// The variable by which ranks learn the error handler that they begin with.
const ERROR_HANDLER: &str = "ALDIS_MPI_INITIAL_ERRHANDLER";

/// The variables that stand for options which are not given.
const VARIABLES: [(&str, &str, ValueCheck); 2] = [
    ("MPIEXEC_TIMEOUT", "--timeout", values::seconds),
    ("ALDIS_MPI_TRANSPORT", "--transport", values::transport),
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
    options: Vec<JobOption>,
    /// The options, name and arguments of each program.
    pub(crate) programs: Vec<Vec<OsString>>,
}

/// An option of the whole job.
#[derive(PartialEq, Eq, Debug)]
struct JobOption {
    ours: &'static str,
    value: Option<OsString>,
    /// The name that was typed.
    typed: String,
}

/// Reads the command line behind this program's own name. Programs find the library in the folder
/// `lib`, whatever search path they are given.
pub(crate) fn read(words: &[OsString], lib: &OsStr) -> Result<Asked, String> {
    let mut reading = Reading { lib, ..Reading::default() };
    for part in words.split(|word| word == ":") {
        if let Some(asked) = reading.part(part)? {
            return Ok(asked);
        }
    }
    reading.check()?;
    Ok(Asked::Run(reading.job))
}

/// The options of the program that is read.
#[derive(Default)]
struct ProgramWords {
    ranks: Option<u32>,
    soft: Option<GivenOption>,
    folder: Option<GivenOption>,
    words: Vec<OsString>,
}

impl ProgramWords {
    fn is_empty(&self) -> bool {
        self.ranks.is_none() && self.soft.is_none() && self.folder.is_none() && self.words.is_empty()
    }
}

/// An option's value, and the name that was typed.
struct GivenOption {
    typed: String,
    value: OsString,
}

impl GivenOption {
    /// Says why the value cannot be taken.
    fn refused(&self, why: impl Display) -> String {
        format!("{} {why}", self.typed)
    }
}

/// A command line of which a part has been read.
#[derive(Default)]
struct Reading<'a> {
    lib: &'a OsStr,
    job: Job,
    own: ProgramWords,
    /// The folders of all programs.
    folders: Vec<GivenOption>,
    /// The option that keeps the job on this machine.
    here: Option<GivenOption>,
    /// Lines of a file are read: some may have options of the whole job alone.
    is_in_file: bool,
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
        let told = |why: String| format!("{option} {why}");
        let lib = self.lib;
        let mut given = || value().map(|value| GivenOption { typed: option.to_owned(), value });
        match means {
            Means::Usual | Means::Programs => {}
            Means::Nothing(instead) => {
                return Err(format!("{option} has nothing that stands for it: {instead}"));
            }
            Means::Parameter(instead) => {
                let (name, value) = (value()?, value()?);
                let parameter = format!("{} {}", name.display(), value.display());
                return Err(format!("{option} {parameter} has nothing that stands for it: {instead}"));
            }
            Means::Ranks => self.own.ranks = Some(values::ranks(&value()?).map_err(told)?),
            Means::Soft => self.own.soft = Some(given()?),
            Means::Folder => self.own.folder = Some(given()?),
            Means::ErrorHandler => {
                let name = values::error_handler(&value()?).map_err(told)?;
                self.own.words.extend(["--env".into(), format!("{ERROR_HANDLER}={name}").into()]);
            }
            Means::Variable => {
                let variable = searching(assigned(option, value)?, lib);
                self.job.add(option, "--genv", variable);
            }
            Means::OwnVariable => {
                let variable = searching(assigned(option, value)?, lib);
                self.own.words.extend(["--env".into(), variable]);
            }
            Means::Exported => {
                let variable = exported(values::named(value()?).map_err(told)?, lib);
                variable.into_iter().for_each(|variable| self.job.add(option, "--genv", variable));
            }
            Means::Variables(ours) => {
                let names = value()?;
                let names = names.to_string_lossy();
                for name in names.split(',').filter(|name| !name.is_empty()) {
                    let variable = exported(values::named(name.into()).map_err(told)?, lib);
                    match variable {
                        Some(variable) if ours == "--env" => self.own.words.extend([ours.into(), variable]),
                        Some(variable) => self.job.add(option, ours, variable),
                        None => {}
                    }
                }
            }
            Means::Set(ours, said) => self.job.set(option, ours, said.map(OsString::from)),
            _ => return self.of_job(means, given()?),
        }
        Ok(())
    }

    /// Takes an option of the whole job that has a value.
    fn of_job(&mut self, means: Means, given: GivenOption) -> Result<(), String> {
        let (typed, value) = (&*given.typed, given.value.clone());
        let told = |why: String| given.refused(why);
        match means {
            Means::PerHost => {
                let ranks = values::ranks(&value).map_err(told)?;
                self.job.set(typed, "--per-host", Some(ranks.to_string().into()));
            }
            Means::Order => {
                if let Some(ranks) = order(&value).map_err(told)? {
                    self.job.set(typed, "--per-host", Some(ranks.to_string().into()));
                }
            }
            Means::Hosts => {
                values::host_list(&value).map_err(told)?;
                self.job.add(typed, "--host", value);
            }
            Means::Job(ours, check) => {
                check(&value).map_err(told)?;
                self.job.set(typed, ours, Some(value));
            }
            Means::UsualIf(check) => check(&value).map_err(told)?,
            Means::Bind => {
                let to = binding(&value).map_err(told)?;
                self.job.set(typed, "--bind", Some(to.into()));
            }
            Means::Launcher => match value.to_str() {
                Some("ssh") => self.here = None,
                Some("fork") => self.here = Some(given),
                _ => {
                    let exec = "hosts are reached by `ssh`, or what -launcher-exec COMMAND names";
                    return Err(given.refused(values::refused(&value, exec)));
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// Takes a program and its arguments, behind its options.
    fn program(&mut self, command: &[OsString]) -> Result<Option<Asked>, String> {
        if command.is_empty() && self.is_in_file && self.own.is_empty() {
            return Ok(None);
        }
        if command.is_empty() {
            return Err("no program is named; aldis-mpiexec -n 4 ./program starts four ranks of it".into());
        }
        let ProgramWords { ranks, soft, folder, words } = core::mem::take(&mut self.own);
        // So many a host, of one host, are so many.
        let has_hosts = self.job.has("--host") || self.job.has("--hostfile");
        let each = self.job.value("--per-host").filter(|_| !has_hosts).cloned();
        let ranks = match (&soft, ranks) {
            (Some(soft), Some(most)) => {
                let ranks = values::soft(&soft.value, most).map_err(|why| soft.refused(why))?;
                ranks.to_string().into()
            }
            (Some(soft), None) => return Err(soft.refused("needs -n N: the ranks that there may be at most")),
            (None, Some(ranks)) => ranks.to_string().into(),
            (None, None) => each.unwrap_or_else(|| "1".into()),
        };
        let mut program = vec!["-n".into(), ranks];
        program.extend(words);
        if let Some(folder) = folder {
            program.extend(["--wdir".into(), folder.value.clone()]);
            self.folders.push(folder);
        }
        program.extend(command.iter().cloned());
        self.job.programs.push(program);
        Ok(None)
    }

    /// Reads the programs of a file: one a line with its options, or several with `:` between them;
    /// `#` begins a comment, and a line that ends with a backslash goes on in the next.
    fn file(&mut self, option: &str, path: &OsStr) -> Result<Option<Asked>, String> {
        let of_file = |error: &dyn Display| format!("{option} {}: {error}", path.display());
        let text = read_to_string(path).map_err(|error| of_file(&error))?;
        let text = text.replace("\\\n", " ");
        self.is_in_file = true;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            for part in words(line).split(|word| word == ":") {
                let asked = self.part(part).map_err(|error| of_file(&error))?;
                if asked.is_some() {
                    return Ok(asked);
                }
            }
        }
        if self.job.programs.is_empty() { Err(of_file(&"no program in it")) } else { Ok(None) }
    }

    /// Fails where options contradict each other.
    fn check(&self) -> Result<(), String> {
        let list = self.job.options.iter().find(|one| one.ours == "--host");
        let file = self.job.options.iter().find(|one| one.ours == "--hostfile");
        if let (Some(list), Some(file)) = (list, file) {
            return Err(format!("{} and {} both name hosts; give one of them", list.typed, file.typed));
        }
        match (list.or(file), &self.here) {
            (Some(hosts), Some(here)) => Err(format!(
                "{} {} starts ranks on this machine alone, and {} names hosts; leave one of them out",
                here.typed,
                here.value.display(),
                hosts.typed
            )),
            (Some(_), None) => Ok(()),
            // Folders of other machines cannot be looked at from here.
            (None, _) => self
                .folders
                .iter()
                .try_for_each(|folder| values::folder(&folder.value).map_err(|why| folder.refused(why))),
        }
    }
}

impl Job {
    /// Takes the variables that stand for options which are not given, and the usual for others.
    pub(crate) fn fill(&mut self) -> Result<(), String> {
        for (variable, ours, check) in VARIABLES {
            if let Some(value) = std::env::var_os(variable).filter(|_| !self.has(ours)) {
                check(&value).map_err(|why| format!("{variable}={why}"))?;
                self.add(variable, ours, value);
            }
        }
        for (ours, usual) in [("--output", "plain"), ("--transport", "auto")] {
            if !self.has(ours) {
                self.add(ours, ours, usual.into());
            }
        }
        Ok(())
    }

    /// The options of the whole job, as words.
    pub(crate) fn options(&self) -> impl Iterator<Item = &OsStr> {
        self.options.iter().flat_map(|one| [Some(OsStr::new(one.ours)), one.value.as_deref()]).flatten()
    }

    /// Adds an option to those that are given.
    fn add(&mut self, typed: &str, ours: &'static str, value: OsString) {
        self.options.push(JobOption { ours, value: Some(value), typed: typed.to_owned() });
    }

    /// Puts an option in the place of an earlier one, if there is one.
    fn set(&mut self, typed: &str, ours: &'static str, value: Option<OsString>) {
        self.options.retain(|one| one.ours != ours);
        self.options.push(JobOption { ours, value, typed: typed.to_owned() });
    }

    fn has(&self, ours: &str) -> bool {
        self.options.iter().any(|one| one.ours == ours)
    }

    fn value(&self, ours: &str) -> Option<&OsString> {
        self.options.iter().find(|one| one.ours == ours)?.value.as_ref()
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

/// The ranks of each host, if an order says so; host by host, as they are, says nothing.
fn order(value: &OsStr) -> Result<Option<u32>, String> {
    let text = value.to_string_lossy().to_lowercase();
    let parts: Vec<&str> = text.split(':').filter(|part| *part != "oversubscribe").collect();
    match parts.as_slice() {
        ["" | "slot" | "core" | "hwthread" | "package" | "socket" | "numa"] | [] => Ok(None),
        ["ppr", each, "node"] => values::ranks(OsStr::new(each)).map(Some),
        _ => Err(format!("{} has nothing that stands for it: {PLACES}", value.display())),
    }
}

/// A variable in one word, or its name and its value in two.
fn assigned(option: &str, value: &mut dyn FnMut() -> Result<OsString, String>) -> Result<OsString, String> {
    let name = values::named(value()?).map_err(|why| format!("{option} {why}"))?;
    if name.to_string_lossy().contains('=') { Ok(name) } else { Ok(assignment(name, value()?)) }
}

/// `NAME=VALUE`.
fn assignment(mut name: OsString, value: OsString) -> OsString {
    name.push("=");
    name.push(value);
    name
}

/// A variable that is passed on; none if it is to be as it is here, where there is none.
fn exported(variable: OsString, lib: &OsStr) -> Option<OsString> {
    let is_there = variable.to_string_lossy().contains('=') || std::env::var_os(&variable).is_some();
    is_there.then(|| searching(variable, lib))
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

/// The pinning in the words of `aldis-run`. Cores are shared where there are not enough.
fn binding(to: &OsStr) -> Result<&'static str, String> {
    let text = to.to_string_lossy();
    match text.strip_suffix(":overload-allowed").unwrap_or(&text) {
        "core" | "cpu" | "hwthread" => Ok("core"),
        "none" | "board" | "machine" | "user" => Ok("none"),
        _ => Err(format!("{text} is not known: ranks are bound to `core` or `none`")),
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
        let programs: Vec<_> = programs.iter().map(|one| words(one)).collect();
        let Ok(Asked::Run(found)) = asked(line) else { panic!("{line}: {:?}", asked(line)) };
        assert_eq!(found.options().collect::<Vec<_>>(), words(options), "{line}");
        assert_eq!(found.programs, programs, "{line}");
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
        job("--host=a:2 --timeout=3 -iface lo p", "--host a:2 --timeout 3 --tcp-include lo", &["-n 1 p"]);
    }

    #[test]
    fn programs_have_options_of_their_own() {
        job(
            "-n 2 -env A 1 -wdir /usr a y : -np 3 -genv B 2 b : c",
            "--genv B=2",
            &["-n 2 --env A=1 --wdir /usr a y", "-n 3 b", "-n 1 c"],
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
    fn the_last_of_several_counts() {
        job("-l -l -bind-to core -bind-to none p", "--output prefix --bind none", &["-n 1 p"]);
        job("-ppn 2 -timeout 3 -ppn 1 -timeout 4 p", "--per-host 1 --timeout 4", &["-n 1 p"]);
        job("-q -q -n 2 -n 3 -wdir / -wd /usr p", "--quiet", &["-n 3 --wdir /usr p"]);
        job("-host a -host b p", "--host a --host b", &["-n 1 p"]);
    }

    #[test]
    fn variables_may_be_in_one_word() {
        job("-genv A=7 -env B=8= -genv C 9 p", "--genv A=7 --genv C=9", &["-n 1 --env B=8= p"]);
        job("-env LD_LIBRARY_PATH=/there p", "", &["-n 1 --env LD_LIBRARY_PATH=/lib:/there p"]);
    }

    #[test]
    fn options_of_the_standard_are_taken() {
        job("-n 5 -soft 1:8:2 a : -n 2 -soft 2 b", "", &["-n 5 a", "-n 2 b"]);
        job("-n 4 -soft 1:8:2 p", "", &["-n 3 p"]);
        let arch = format!("-arch {} -memory-alloc-kinds system,mpi p", std::env::consts::ARCH);
        job(&arch, "", &["-n 1 p"]);
        job(
            "-n 1 -initial-errhandler MPI_ERRORS_RETURN a : b",
            "",
            &["-n 1 --env ALDIS_MPI_INITIAL_ERRHANDLER=mpi_errors_return a", "-n 1 b"],
        );
    }

    #[test]
    fn launchers_that_are_ours_are_taken() {
        job("-bootstrap fork p", "", &["-n 1 p"]);
        job("-launcher ssh -hosts a p", "--host a", &["-n 1 p"]);
        job("-launcher-exec rsh -hosts a p", "--ssh rsh --host a", &["-n 1 p"]);
        job("--bind-to core:overload-allowed --use-hwthread-cpus p", "--bind core", &["-n 1 p"]);
        job("--bind-to-core p", "--bind core", &["-n 1 p"]);
        job("--bind-to-none p", "--bind none", &["-n 1 p"]);
    }

    #[test]
    fn names_are_of_one_option() {
        let names = OPTIONS.iter().flat_map(|(names, _)| names.iter());
        let mut seen = std::collections::BTreeSet::new();
        names.for_each(|name| assert!(seen.insert(name), "{name} twice"));
    }

    #[test]
    fn a_file_names_programs() {
        let path = std::env::temp_dir().join(format!("aldis-mpiexec-{}", std::process::id()));
        let text = "# programs\n-q\n-n 1 ./a 'b c'\n\n-n 2 -env A 1 \\\n -wdir /usr d : -n 3 e\n";
        std::fs::write(&path, text).unwrap();
        let line = ["-l".into(), "-configfile".into(), path.clone().into_os_string()];
        let found = read(&line, "/lib".as_ref());
        std::fs::remove_file(path).unwrap();
        let second = "-n 2 --env A=1 --wdir /usr d".split(' ').collect();
        let programs = [vec!["-n", "1", "./a", "b c"], second, vec!["-n", "3", "e"]];
        let Ok(Asked::Run(found)) = found else { panic!("{found:?}") };
        assert_eq!(found.programs, programs);
        assert_eq!(found.options().collect::<Vec<_>>(), ["--output", "prefix", "--quiet"]);
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
            ("--mca btl tcp -n 2 p", "--mca btl tcp has nothing that stands for it: --transport"),
            ("-n 2 --bind-to socket p", "--bind-to socket is not known"),
            ("-n 2 -bogus 3 p", "there is no option -bogus; aldis-mpiexec --help"),
            ("-n", "-n needs a value"),
            ("-genv A", "-genv needs a value"),
            ("-hosts a,,b p", "-hosts a,,b: ``: a host without a name"),
            ("-x =3 p", "-x =3: a variable without a name"),
            ("-genv =3 p", "-genv =3: a variable without a name"),
            ("-np 99999 p", "-np 99999: a job has at most 65536 ranks"),
            ("-f /no/such/file p", "-f /no/such/file: No such file"),
            ("-transport bad p", "-transport bad: not a transport: there are auto"),
            ("-timeout 1e30 p", "-timeout 1e30: not a number of seconds"),
            ("-f /dev/null -H localhost p", "-H and -f both name hosts; give one of them"),
            ("-wd /no/such/folder p", "-wd /no/such/folder: No such file"),
            ("-wdir /dev/null p", "-wdir /dev/null: not a folder"),
            ("-bootstrap fork -hosts a p", "-bootstrap fork starts ranks on this machine alone, and -hosts"),
            ("-launcher slurm p", "-launcher slurm: hosts are reached by `ssh`"),
            ("-launcher-exec ' p", "-launcher-exec ': a quote that is not closed"),
            ("-initial-errhandler none p", "-initial-errhandler none: not an error handler"),
            ("-soft 2 p", "-soft needs -n N"),
            ("-n 4 -soft 5 p", "-soft 5: no number of ranks in it from 1 to 4"),
            ("-arch pdp11 p", "-arch pdp11: this is "),
            ("-memory-alloc-kinds system,cuda p", "-memory-alloc-kinds system,cuda: messages are in memory"),
            ("-file x p", "-file has nothing that stands for it: -configfile"),
            ("-disable-auto-cleanup p", "-disable-auto-cleanup has nothing that stands for it: a rank"),
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
