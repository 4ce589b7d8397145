//! Licence expressions: whether a package with a given expression may be used.
//!
//! The grammar is the part of SPDX that packages use: identifiers, `WITH` an exception, `AND` before `OR`, parentheses,
//! and the old slash for `OR`.

/// Returns true if one of the choices that `expression` offers consists of `allowed` licences only.
///
/// An exception is part of the name: `Apache-2.0 WITH LLVM-exception` is allowed only if `allowed` contains this whole
/// name.
pub(super) fn permits(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut parser = Parser {
        tokens: spaced.split_whitespace().collect(),
        next: 0,
        allowed,
    };
    let result = parser.any();
    match (result, parser.peek()) {
        (Ok(permitted), None) => Ok(permitted),
        (Ok(_), Some(token)) => Err(format!("`{token}` is not expected in `{expression}`")),
        (Err(message), _) => Err(format!("{message} in `{expression}`")),
    }
}

struct Parser<'p> {
    tokens: Vec<&'p str>,
    next: usize,
    allowed: &'p [&'p str],
}

impl<'p> Parser<'p> {
    fn peek(&self) -> Option<&'p str> {
        self.tokens.get(self.next).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut permitted = self.all()?;
        while self.take("OR") {
            permitted |= self.all()?;
        }
        Ok(permitted)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut permitted = self.one()?;
        while self.take("AND") {
            permitted &= self.one()?;
        }
        Ok(permitted)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let permitted = self.any()?;
            return if self.take(")") {
                Ok(permitted)
            } else {
                Err("a parenthesis is not closed".into())
            };
        }
        let mut name = self.identifier()?.to_owned();
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.identifier()?);
        }
        Ok(self.allowed.contains(&name.as_str()))
    }

    fn identifier(&mut self) -> Result<&'p str, String> {
        match self.peek() {
            Some(word) if !["OR", "AND", "WITH", "(", ")"].contains(&word) => {
                self.next += 1;
                Ok(word)
            }
            _ => Err("a licence is missing".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::permits;

    const ALLOWED: &[&str] = &[
        "MIT",
        "Apache-2.0",
        "Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
    ];

    #[test]
    fn one_permitted_choice_is_enough_and_all_its_parts_are_needed() {
        let cases = [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("GPL-3.0-only OR MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only AND GPL-2.0-only", true),
            ("MIT/Apache-2.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
        ];
        for (expression, permitted) in cases {
            assert_eq!(permits(expression, ALLOWED), Ok(permitted), "{expression}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error_not_a_permission() {
        for expression in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "MIT)", "WITH MIT"] {
            assert!(permits(expression, ALLOWED).is_err(), "{expression}");
        }
    }
}
