//! Performance claims and whether they hold.

/// Prints in one line whether a claim holds.
pub(crate) fn claim(what: &str, value: f64, unit: &str, at_most: f64) {
    let status = if value <= at_most { "holds" } else { "FAILS" };
    println!("claim {status}: {what}: {value:.3} {unit}, at most {at_most} {unit}");
}
