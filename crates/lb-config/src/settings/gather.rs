//! From the four places to one value per setting, with everything that is wrong.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::access::Access;
use super::environment::Variables;
use super::file;
use super::kind::{Kind, Raw, Unit, Value};
use super::table::{INLINE_CONFIG, SETTINGS_VARIABLE, Scope, Setting, table};
use crate::problem::{Problem, Severity};
use crate::report::cut;

/// Flags as they were given: key, and every value.
pub type Given = Vec<(&'static str, Vec<String>)>;

/// What settings are read from.
#[derive(Debug, Default)]
pub struct Sources {
    /// The flags.
    pub flags: Given,
    /// The variables.
    pub variables: Vec<(OsString, OsString)>,
    /// The file, when a flag names one.
    pub file: Option<PathBuf>,
    /// What a mistake in the file means.
    pub mistakes: Mistakes,
}

/// What a mistake in the file of settings means to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mistakes {
    /// It cannot be run: who knows what was meant.
    #[default]
    Refused,
    /// It hardly uses the file, and runs without it.
    Warned,
}

impl Sources {
    /// The flags and file of a command line, with the variables of this process.
    #[must_use]
    pub fn of_process(flags: Given, file: Option<PathBuf>) -> Self {
        Self { flags, variables: std::env::vars_os().collect(), file, mistakes: Mistakes::default() }
    }

    /// The same for a command that takes mistakes in the file like this.
    #[must_use]
    pub fn with(self, mistakes: Mistakes) -> Self {
        Self { mistakes, ..self }
    }
}

/// Where a value was written. In order of strength.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Default,
    File { path: PathBuf, line: usize },
    Alias(String),
    Variable(String),
    Flag(String),
}

impl Place {
    /// How strong it is.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Alias(_) => 2,
            Self::Variable(_) => 3,
            Self::Flag(_) => 4,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Alias(name) | Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// What one place says of one setting.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub place: Place,
    pub raw: Raw,
    pub unit: Unit,
}

/// A value and where it is from.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub value: Value,
    pub place: Place,
}

/// Everything that was said, checked value by value.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    pub(crate) held: HashMap<&'static str, Held>,
    /// Errors and warnings so far.
    pub(crate) problems: Vec<Problem>,
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// Where it is, or would be, and whether somebody named it: only then it must be there.
    pub file_place: Option<(PathBuf, bool)>,
    /// Servers as JSON, out of a variable.
    pub inline_servers: Option<String>,
    /// Who gets in and may do what, as the file says.
    pub access: Access,
    /// The folder that relative paths of the file start from.
    pub(super) folder: Option<PathBuf>,
    /// What `~` stands for.
    pub(crate) home: Option<PathBuf>,
}

/// Reads all places for a command of this scope. What is wrong is inside.
#[must_use]
pub fn gather(sources: Sources, scopes: &[Scope]) -> Gathered {
    let variables = Variables::new(sources.variables);
    let path = sources.file.or_else(|| variables.get(SETTINGS_VARIABLE).map(PathBuf::from));
    let default = || file::default_path(&|name| variables.get(name).map(str::to_owned));
    let file_place = path.map(|path| (path, true)).or_else(|| Some((default()?, false)));
    let file = file_place.as_ref().filter(|(path, named)| *named || path.exists()).map(|(path, _)| path.clone());
    let mut from_file = file.as_deref().map(file::load).unwrap_or_default();
    // A file that others may write to, or that says something else than it seems to, is not followed in part. What it says
    // is looked at all the same, so that everything is corrected at once.
    let is_followed = sources.mistakes == Mistakes::Refused || !from_file.problems.iter().any(is_error);
    if !is_followed {
        from_file.access = Access::default();
    }
    let mut gathered = Gathered {
        problems: from_file.problems,
        access: from_file.access,
        folder: file.as_deref().and_then(Path::parent).map(Path::to_owned),
        home: variables.get("HOME").map(PathBuf::from),
        inline_servers: variables.get(INLINE_CONFIG).map(str::to_owned),
        file,
        file_place,
        ..Gathered::default()
    };
    for setting in table().iter().filter(|setting| scopes.contains(&setting.scope)) {
        let mut told = variables.of(setting);
        let of_file = from_file.told.iter().filter(|(key, _)| *key == setting.key).map(|(_, told)| told.clone());
        if is_followed {
            told.extend(of_file);
        } else {
            let mut unused = Gathered::default();
            unused.choose(setting, of_file.collect());
            gathered.problems.append(&mut unused.problems);
        }
        for (key, values) in sources.flags.iter().filter(|(key, _)| meant(key) == setting.key) {
            told.push(flag(setting, key, values));
        }
        gathered.choose(setting, told);
    }
    gathered.problems.extend(variables.unknown());
    if sources.mistakes == Mistakes::Warned {
        gathered.warn_of_file();
    }
    gathered
}

fn is_error(problem: &Problem) -> bool {
    problem.severity == Severity::Error
}

/// What the bytes of a file come to by themselves, as every command would read them, some of them also checked in
/// combination and shown; for generated files. Gives the problems, and whether the file can be used.
#[must_use]
pub fn fuzz_settings(bytes: &[u8]) -> (Vec<Problem>, bool) {
    let from_file = file::parse(bytes, Path::new("landbridge.toml"));
    let mut gathered = Gathered { problems: from_file.problems, access: from_file.access, ..Gathered::default() };
    for setting in table() {
        let told = from_file.told.iter().filter(|(key, _)| *key == setting.key).map(|(_, told)| told.clone());
        gathered.choose(setting, told.collect());
    }
    // What follows takes ten times as long as reading does, and depends on the bytes no more: some are enough.
    if bytes.len().is_multiple_of(16) {
        std::hint::black_box(super::typed::Settings::settle(&mut gathered));
        std::hint::black_box((super::show::shown(&gathered), super::show::shown_json(&gathered)));
    }
    let usable = !gathered.is_broken();
    (gathered.problems, usable)
}

/// The setting of a flag, which some commands have under another name.
fn meant(key: &'static str) -> &'static str {
    match key {
        "http" => "listen",
        key => key,
    }
}

fn flag(setting: &Setting, key: &str, values: &[String]) -> Told {
    let raw = match (setting.kind, values) {
        (Kind::Switch, []) => Raw::Bool(true),
        (_, [one]) => Raw::Text(one.clone()),
        (_, many) => Raw::List(many.to_vec()),
    };
    // The one that was typed.
    Told { place: Place::Flag(key.replace('_', "-")), raw, unit: Unit::Seconds }
}

/// What a value may be in this place. Who types a port sees which one is taken for 0; in a variable it is a slip.
fn kind(setting: &Setting, place: &Place) -> Kind {
    match (setting.key, place, setting.kind) {
        ("port", Place::Flag(_), Kind::Count(_, most)) => Kind::Count(0, most),
        (_, _, kind) => kind,
    }
}

impl Gathered {
    /// Takes the strongest value; the others are checked too, because they are mistakes that wait.
    fn choose(&mut self, setting: &'static Setting, told: Vec<Told>) {
        let mut best: Option<Held> = None;
        for Told { place, raw, unit } in told {
            match kind(setting, &place).read(&raw, unit) {
                Ok(mut value) => {
                    self.anchor(setting, &place, &mut value);
                    // The first alias of a setting is the strongest, so that equals do not displace.
                    if best.as_ref().is_none_or(|best| best.place.rank() < place.rank()) {
                        best = Some(Held { value, place });
                    }
                }
                Err(allowed) => {
                    let message = match shown(&raw).filter(|_| !setting.secret && !setting.is_absent()) {
                        Some(value) => format!("{value} cannot be used: {allowed}"),
                        None => allowed,
                    };
                    self.error(setting.key, &place, message, None);
                }
            }
        }
        if let Some(best) = best {
            self.held.insert(setting.key, best);
        }
    }

    /// A path of the file starts where the file is.
    fn anchor(&self, setting: &Setting, place: &Place, value: &mut Value) {
        let is_path = matches!(
            setting.key,
            "config"
                | "tls_cert"
                | "tls_key"
                | "log_file"
                | "log_dir"
                | "audit_log"
                | "data"
                | "store_ca"
                | "node_ca"
                | "key_file"
                | "oidc_client_secret_file"
                | "outbound_ca"
        ) && !matches!(value, Value::Text(text) if text == "none");
        if let (true, Place::File { .. }, Value::Text(path), Some(folder)) = (is_path, place, value, &self.folder)
            && !path.starts_with('~')
        {
            *path = folder.join(&*path).to_string_lossy().into_owned();
        }
    }

    /// What is wrong with the file becomes a warning.
    fn warn_of_file(&mut self) {
        let Some(file) = &self.file else { return };
        for problem in self.problems.iter_mut().filter(|problem| problem.file == *file) {
            problem.severity = Severity::Warning;
        }
    }

    /// Adds an error about a value that turned out to be of no use, with the place that it is from.
    pub fn refuse(&mut self, key: &str, message: String, hint: Option<String>) {
        let place = self.held.get(key).map_or(Place::Default, |held| held.place.clone());
        self.error(key, &place, message, hint);
    }

    /// Adds an error about a value.
    pub(crate) fn error(&mut self, key: &str, place: &Place, message: String, hint: Option<String>) {
        let (file, line, key) = match place {
            Place::File { path, line } => (path.clone(), *line, key.to_owned()),
            Place::Default => (PathBuf::new(), 0, key.to_owned()),
            said @ (Place::Alias(_) | Place::Variable(_) | Place::Flag(_)) => (PathBuf::new(), 0, said.to_string()),
        };
        self.problems.push(Problem { severity: Severity::Error, file, line, column: 0, key, message, hint });
    }

    /// Whether anything makes it unusable.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.problems.iter().any(is_error)
    }

    /// Everything that was found, in the order of the places.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// A value as it was written, short.
fn shown(raw: &Raw) -> Option<String> {
    match raw {
        Raw::Text(text) => Some(format!("{:?}", cut(text))),
        Raw::List(list) => Some(format!("{:?}", cut(&list.join(",")))),
        Raw::Number(number) => Some(number.to_string()),
        Raw::Bool(value) => Some(value.to_string()),
        Raw::Other(_) => None,
    }
}
