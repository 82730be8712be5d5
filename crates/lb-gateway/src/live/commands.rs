//! Programs that an operator lets administrators start from elsewhere: a path and the arguments it must have.

use std::sync::Arc;

use lb_exchange::Target;

use super::Policy;

/// Stands for one argument of any text.
const ANY: &str = "*";

/// Which programs those are; none unless some are named.
#[derive(Clone, Debug, Default)]
pub struct Commands(Arc<[Vec<String>]>);

impl Commands {
    /// Each as it is written: words with spaces between them, a path first.
    pub fn new<'a>(commands: impl IntoIterator<Item = &'a str>) -> Self {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Self(commands.into_iter().map(words).collect())
    }

    /// Whether this may be started. Nothing but the arguments may be chosen: with variables or a folder of one's own, any
    /// program can be made to do anything.
    pub(crate) fn allow(&self, target: &Target) -> bool {
        let Target::Child { command, args, env, cwd, inherit_env } = target else { return false };
        let plain = env.is_empty() && cwd.is_none() && !inherit_env;
        plain && self.0.iter().any(|known| fits(known, command, args))
    }
}

impl Policy {
    /// Whether clients may have such a program started.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn may_start(&self, target: &Target) -> Result<(), &'static str> {
        match (self.from_afar, self.allow_spawn) {
            (true, _) if self.commands.allow(target) => Ok(()),
            (true, _) => Err("clients from elsewhere may not start programs here, unless the operator has named the \
                              program with its arguments (allow_commands); or put the server into the config file"),
            (false, true) => Ok(()),
            (false, false) => Err("starting programs over HTTP is off; start landbridge with --allow-stdio-spawn to \
                                   allow it, or put the server into the config file"),
        }
    }
}

fn fits(known: &[String], command: &str, args: &[String]) -> bool {
    let Some((program, template)) = known.split_first() else { return false };
    // What begins with a dash could be an option that nobody thought of.
    let same = |(known, given): (&String, &String)| known == given || (known == ANY && !given.starts_with('-'));
    program == command && template.len() == args.len() && template.iter().zip(args).all(same)
}

#[cfg(test)]
mod tests {
    use lb_exchange::Secret;

    use super::*;

    fn child(words: &str) -> Target {
        let mut words = words.split(' ').map(str::to_owned);
        let (command, args) = (words.next().expect("a program"), words.collect());
        Target::Child { command, args, env: Vec::new(), cwd: None, inherit_env: false }
    }

    #[test]
    fn only_what_is_named_may_be_started_and_with_nothing_else() {
        let commands = Commands::new(["/usr/bin/mcp-server-x --root *", "/opt/plain"]);
        for (words, allowed) in [
            ("/usr/bin/mcp-server-x --root /srv", true),
            ("/usr/bin/mcp-server-x --root *", true),
            ("/opt/plain", true),
            ("/usr/bin/mcp-server-x --root", false),
            ("/usr/bin/mcp-server-x --root --eval", false),
            ("/usr/bin/mcp-server-x --root /srv extra", false),
            ("/usr/bin/mcp-server-x --other /srv", false),
            ("/opt/plain -x", false),
            ("/opt/../opt/plain", false),
            ("plain", false),
            ("/bin/sh -c id", false),
        ] {
            assert_eq!(commands.allow(&child(words)), allowed, "{words}");
        }
        let Target::Child { command, args, .. } = child("/opt/plain") else { unreachable!() };
        let env = vec![("LD_PRELOAD".to_owned(), Secret::new("/tmp/x.so"))];
        let with =
            |env, cwd| Target::Child { command: command.clone(), args: args.clone(), env, cwd, inherit_env: false };
        assert!(!commands.allow(&with(env, None)));
        assert!(!commands.allow(&with(Vec::new(), Some("/tmp".into()))));
        assert!(!Commands::default().allow(&child("/opt/plain")));
    }
}
