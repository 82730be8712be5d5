//! Pages for people: where they agree, and where something went wrong. No scripts, and everything is escaped.

use std::fmt::Write as _;

use crate::client::{Origin, clean};
use crate::scope::{Scope, Scopes};

/// The one style of all pages.
pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1a1a1a;--bg:#f6f6f4;--card:#fff;--line:#d8d8d4;--go:#0a5c36;--ongo:#fff;--warn:#8a4b00;--warnbg:#fff4e0}
@media(prefers-color-scheme:dark){:root{--fg:#ececea;--bg:#161615;--card:#222220;--line:#3c3c38;--go:#3fae78;--ongo:#06140c;--warn:#ffc878;--warnbg:#3a2c14}}
*{box-sizing:border-box}
body{margin:0;padding:1rem;background:var(--bg);color:var(--fg);font:1rem/1.5 system-ui,sans-serif}
main{max-width:32rem;margin:5vh auto;padding:1.5rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}
h1{font-size:1.3rem;margin:0 0 1rem;overflow-wrap:anywhere}
dt{font-weight:600;margin-top:.75rem}dd{margin:0;overflow-wrap:anywhere}
dd ul{margin:0;padding-left:1.25rem}time{white-space:nowrap}form button{flex-basis:10rem}main>:last-child{margin-bottom:0}
.warn{margin:1rem 0;padding:.75rem;border-left:.25rem solid var(--warn);background:var(--warnbg)}
form{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1.5rem}
button{flex:1 1 8rem;padding:.75rem;font:inherit;border:1px solid var(--line);border-radius:.375rem;background:transparent;color:inherit;cursor:pointer}
button.go{background:var(--go);border-color:var(--go);color:var(--ongo)}
button:focus-visible{outline:.2rem solid var(--warn);outline-offset:.1rem}
";

/// What a person agrees to.
pub(crate) struct Consent<'a> {
    pub gateway: &'a str,
    pub provider: &'a str,
    pub client_id: &'a str,
    pub client_name: &'a str,
    pub origin: &'a Origin,
    pub redirect_host: &'a str,
    pub local_only: bool,
    pub scopes: &'a Scopes,
    pub id: &'a str,
    pub mark: &'a str,
}

impl Consent<'_> {
    /// The page.
    pub fn html(&self) -> String {
        let name = if self.client_name.is_empty() { "An application without a name" } else { self.client_name };
        let mut body = format!("<h1>{} wants to use {}</h1>\n<dl>\n", escape(name), escape(self.gateway));
        let mut row = |term: &str, text: &str| push(&mut body, &format!("<dt>{term}</dt><dd>{text}</dd>\n"));
        row("Application", &self.identity());
        row("You are sent back to", &format!("<strong>{}</strong>", escape(self.redirect_host)));
        let scopes = self.scopes.iter().map(|scope| format!("<li>{}</li>", escape(&in_words(scope))));
        row("It may", &format!("<ul>{}</ul>", scopes.collect::<String>()));
        row("You log in at", &escape(self.provider));
        push(&mut body, "</dl>\n");
        if matches!(self.origin, Origin::Registered { .. }) {
            push(
                &mut body,
                &warning("Nobody has verified who made this application. Its name is what it says of itself."),
            );
        }
        if self.local_only {
            push(
                &mut body,
                &warning(
                    "You are sent back to a program on this computer. Any program here can pretend to be this one: go on only if you have just started it yourself.",
                ),
            );
        }
        push(&mut body, &self.form());
        document(&format!("{name} wants to use {}", self.gateway), &body)
    }

    fn identity(&self) -> String {
        match self.origin {
            Origin::Operator => format!("{} (set by the operator)", escape(self.client_id)),
            Origin::Document { host } => format!("<strong>{}</strong><br>{}", escape(host), escape(self.client_id)),
            Origin::Registered { at } => {
                format!("unverified, registered on <time>{}</time><br>{}", date(*at), escape(self.client_id))
            }
        }
    }

    fn form(&self) -> String {
        format!(
            "<form method=\"post\" action=\"consent\">\n\
             <input type=\"hidden\" name=\"id\" value=\"{}\"><input type=\"hidden\" name=\"csrf\" value=\"{}\">\n\
             <button name=\"decision\" value=\"deny\">Cancel</button>\n\
             <button class=\"go\" name=\"decision\" value=\"approve\">Allow and log in</button>\n</form>\n",
            escape(self.id),
            escape(self.mark)
        )
    }
}

/// A page that says what went wrong and what to do.
pub(crate) fn failure(title: &str, what: &str) -> String {
    document(title, &format!("<h1>{}</h1>\n<p>{}</p>\n", escape(title), escape(what)))
}

/// A page that leads on by itself, from us and so with the cookies of our own pages; `to` is a path of ours.
pub(crate) fn onward(title: &str, to: &str) -> String {
    let to = escape(to);
    let head = format!("<meta http-equiv=\"refresh\" content=\"0; url={to}\">\n");
    let body = format!("<h1>{}</h1>\n<p><a href=\"{to}\">Go on</a></p>\n", escape(title));
    document_with(title, &head, &body)
}

fn document(title: &str, body: &str) -> String {
    document_with(title, "", body)
}

fn document_with(title: &str, head: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <title>{}</title>\n<link rel=\"stylesheet\" href=\"/oauth/style.css\">\n{head}</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

fn warning(text: &str) -> String {
    format!("<p class=\"warn\">{}</p>\n", escape(text))
}

fn push(to: &mut String, text: &str) {
    to.push_str(text);
}

fn in_words(scope: &Scope) -> String {
    match scope {
        Scope::Read => "see what every server offers and read it".into(),
        Scope::Call => "call the tools of every server for you".into(),
        Scope::Admin => "change this gateway: add and remove servers, see what others do".into(),
        Scope::Server(name) => format!("read and call on the server {name}"),
    }
}

/// A text as it can stand in a page or an attribute, without what hides or turns text.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text, 4_096).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Letters that look like others are shown as what they are.
            c if !c.is_ascii() && is_look_alike(c) => {
                if write!(escaped, "[U+{:04X}]", u32::from(c)).is_err() {
                    break;
                }
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Greek, Cyrillic and full-width letters, which are most often taken for Latin ones.
fn is_look_alike(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{52f}' | '\u{ff00}'..='\u{ff5e}' | '\u{1d400}'..='\u{1d7ff}')
}

/// The day of a time in seconds since 1970, as in `2026-07-28`.
pub(crate) fn date(seconds: u64) -> String {
    // Counts days in eras of 400 years that begin on the first of March.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(name: &str, origin: &Origin, local_only: bool) -> String {
        let scopes = Scopes::parse("mcp:read server:git").unwrap();
        let consent = Consent {
            gateway: "landbridge",
            provider: "Example ID",
            client_id: "mcp_1",
            client_name: name,
            origin,
            redirect_host: "127.0.0.1",
            local_only,
            scopes: &scopes,
            id: "ID",
            mark: "MARK",
        };
        consent.html()
    }

    #[test]
    fn a_person_sees_who_asks_where_it_leads_and_what_is_not_known() {
        let html = page("Claude", &Origin::Registered { at: 1_785_196_800 }, true);
        for part in [
            "Claude wants to use landbridge",
            "unverified, registered on <time>2026-07-28</time>",
            "<strong>127.0.0.1</strong>",
            "see what every server offers",
            "read and call on the server git",
            "Example ID",
            "Nobody has verified",
            "Any program here can pretend",
            "name=\"csrf\" value=\"MARK\"",
            "value=\"approve\"",
            "value=\"deny\"",
            "width=device-width",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        let html = page("App", &Origin::Document { host: "app.test".into() }, false);
        assert!(
            html.contains("<strong>app.test</strong>") && !html.contains("class=\"warn\"") && !html.contains("<script")
        );
    }

    #[test]
    fn what_others_say_is_shown_and_not_run() {
        let html = page("<script>alert(1)</script>\"' \u{202e}x\u{430}", &Origin::Operator, false);
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39; x[U+0430]"), "{html}");
        assert!(!html.contains("<script"));
    }

    #[test]
    fn days_are_counted_right() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_164_800, "2024-02-29"),
            (4_102_444_799, "2099-12-31"),
        ] {
            assert_eq!(date(seconds), day);
        }
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_place(text in "\\PC*", tags in "[<>\"'&/a-z ]{0,30}") {
            let escaped = escape(&format!("{text}{tags}"));
            let harmful = ['<', '>', '"', '\'', '\u{202e}', '\u{200b}'];
            prop_assert!(!escaped.contains(harmful), "{}", escaped);
        }
    }
}
