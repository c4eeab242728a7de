//! `Debug` with some of the fields, for types with secrets or closures.

/// Implements `Debug` for a type: its name, and the given values by name.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    ($this:ident: $name:ident$(<$lifetime:lifetime>)? $(, $field:ident = $value:expr)*) => {
        impl std::fmt::Debug for $name$(<$lifetime>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &$value))*
                    .finish_non_exhaustive()
            }
        }
    };
}
