//! Values of one kind out of the tree, with a problem where they are another.

use crate::json::{Member, Node, Value};
use crate::report::{KeyPath, Report};

/// A value was no good; the report says why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

/// A value, or word that its problem has been reported.
pub(crate) type Read<T> = Result<T, Reported>;

/// An object's members.
pub(crate) fn object<'n>(report: &mut Report<'_>, node: &'n Node, path: &KeyPath) -> Read<&'n [Member]> {
    match &node.value {
        Value::Object(members) => Ok(members),
        _ => Err(wrong(report, node, path, "an object")),
    }
}

/// An array's elements.
pub(crate) fn array<'n>(report: &mut Report<'_>, node: &'n Node, path: &KeyPath) -> Read<&'n [Node]> {
    match &node.value {
        Value::Array(elements) => Ok(elements),
        _ => Err(wrong(report, node, path, "an array")),
    }
}

/// A string's text.
pub(crate) fn text<'n>(report: &mut Report<'_>, node: &'n Node, path: &KeyPath) -> Read<&'n str> {
    match &node.value {
        Value::String(text) => Ok(text),
        _ => Err(wrong(report, node, path, "a string")),
    }
}

/// `true` or `false`.
pub(crate) fn boolean(report: &mut Report<'_>, node: &Node, path: &KeyPath) -> Read<bool> {
    match node.value {
        Value::Bool(value) => Ok(value),
        _ => Err(wrong(report, node, path, "a boolean")),
    }
}

/// A number between two bounds, both allowed.
pub(crate) fn number(report: &mut Report<'_>, node: &Node, path: &KeyPath, bounds: [f64; 2]) -> Read<f64> {
    let [least, most] = bounds;
    match node.value {
        Value::Number(number) if (least..=most).contains(&number) => Ok(number),
        Value::Number(_) => {
            report.error(node.at, path, format!("must be between {least} and {most}"));
            Err(Reported)
        }
        _ => Err(wrong(report, node, path, "a number")),
    }
}

/// A whole number between two bounds, both allowed.
pub(crate) fn integer(report: &mut Report<'_>, node: &Node, path: &KeyPath, bounds: [u32; 2]) -> Read<u32> {
    let number = number(report, node, path, bounds.map(f64::from))?;
    if number.fract() != 0.0 {
        report.error(node.at, path, "must be a whole number");
        return Err(Reported);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and between two u32 bounds")]
    Ok(number as u32)
}

fn wrong(report: &mut Report<'_>, node: &Node, path: &KeyPath, want: &str) -> Reported {
    let problem = report.error(node.at, path, format!("must be {want}, not {}", node.value.kind()));
    match (want, &node.value) {
        ("a string", Value::Number(_) | Value::Bool(_)) => problem.hint("put it in double quotes"),
        ("a boolean" | "a number", Value::String(_)) => problem.hint("leave out the quotes"),
        _ => {}
    }
    Reported
}
