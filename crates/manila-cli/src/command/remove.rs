//! `remove`: a source is taken out of the configuration.

use manila_gateway::config::remove_source;

use crate::arguments::RemoveOptions;
use crate::failure::Failure;
use crate::output;

pub(crate) fn remove(options: &RemoveOptions) -> Result<(), Failure> {
    let (name, file) = (&options.name, &options.config);
    remove_source(file, name)?;
    output::print_line(&format!("`{name}` is no longer in {}.", file.display()))?;
    output::remark(output::TAKEN_UP);
    Ok(())
}
