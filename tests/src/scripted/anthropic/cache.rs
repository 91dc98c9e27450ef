//! Markers of the prompt cache: how many, of which kind, in which order.

use super::{Refusal, invalid};
use serde_json::Value;

/// Cache markers in one request.
const MARKERS_MAX: usize = 4;

/// Checks the markers in the order in which the server renders a request.
pub(super) fn check(body: &Value) -> Result<(), Refusal> {
    let mut markers = Vec::new();
    for part in ["tools", "system", "messages"] {
        collect(&body[part], &mut markers);
    }
    markers.extend(body.get("cache_control").filter(|marker| !marker.is_null()));
    if markers.len() > MARKERS_MAX {
        return Err(invalid(format!(
            "A maximum of {MARKERS_MAX} blocks with cache_control may be provided. Found {}.",
            markers.len()
        )));
    }
    let mut short = false;
    for marker in markers {
        if marker["type"] != "ephemeral" {
            return Err(invalid("cache_control.type: Input should be 'ephemeral'"));
        }
        match marker.get("ttl").map(|ttl| ttl.as_str().unwrap_or_default()) {
            None | Some("5m") => short = true,
            Some("1h") if short => {
                return Err(invalid(
                    "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that \
                     blocks are processed in the following order: `tools`, `system`, `messages`.",
                ));
            }
            Some("1h") => {}
            Some(_) => return Err(invalid("cache_control.ephemeral.ttl: Input should be '5m' or '1h'")),
        }
    }
    Ok(())
}

/// Markers anywhere but inside tool schemas and call arguments, where the word is just data.
fn collect<'a>(value: &'a Value, markers: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, markers)),
        Value::Object(fields) => {
            for (name, field) in fields {
                match name.as_str() {
                    "cache_control" if !field.is_null() => markers.push(field),
                    "cache_control" | "input_schema" | "input" => {}
                    _ => collect(field, markers),
                }
            }
        }
        _ => {}
    }
}
