//! What is said about speed, and whether it is so.

/// Prints whether a claim holds, in one line.
pub(crate) fn claim(what: &str, value: f64, unit: &str, at_most: f64) {
    let verdict = if value <= at_most { "holds" } else { "DOES NOT HOLD" };
    println!("claim {verdict}: {what}: {value:.3} {unit}, at most {at_most} {unit}");
}
