//! Structs and enums as their sources write them: names, comments, types, what serde is told.

/// One struct or enum.
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// The first paragraph of its comment.
    pub(crate) about: String,
    /// Keys of a struct; variants of an enum, in the words of a file.
    pub(crate) fields: Vec<Field>,
    attributes: String,
    /// Keys of variants.
    inner: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Struct,
    Enum,
}

/// A key or a variant.
#[derive(Default)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Its type; that of a variant's content, if it has one.
    pub(crate) of: String,
    /// What serde takes when it is absent: a function's name, or nothing for the type's own.
    pub(crate) default: Option<String>,
}

impl Item {
    /// Whether files are read as this type, in the words that it is written in.
    pub(crate) fn is_read(&self) -> bool {
        self.attributes.contains("Deserialize") && !self.attributes.contains("try_from")
    }

    /// Every word that a file may hold for it.
    pub(crate) fn words(&self) -> Vec<String> {
        let own = self.fields.iter().map(|field| field.name.clone());
        own.chain(self.inner.iter().cloned()).filter(|word| !word.is_empty()).collect()
    }
}

/// The structs and enums of a source, tests left out.
pub(crate) fn items(source: &str) -> Vec<Item> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let (mut about, mut attributes) = (Vec::new(), String::new());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let declared = line.strip_prefix("pub ").unwrap_or(line).strip_suffix(" {");
        let declared = declared.and_then(|rest| {
            let start = |word: &str| rest.strip_prefix(word).map(str::to_owned);
            start("struct ")
                .map(|name| (Kind::Struct, name))
                .or_else(|| start("enum ").map(|name| (Kind::Enum, name)))
        });
        match declared {
            Some((kind, name)) => {
                let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").collect();
                found.push(item(kind, name, &about, std::mem::take(&mut attributes), &body));
            }
            None if line.starts_with("///") => {
                about.push(line.trim_start_matches("///").trim());
                continue;
            }
            None if line.starts_with("#[") => {
                attributes.push_str(line);
                continue;
            }
            None => attributes.clear(),
        }
        about.clear();
    }
    found
}

fn item(kind: Kind, name: String, about: &[&str], attributes: String, body: &[&str]) -> Item {
    let mut item =
        Item { kind, name, about: paragraph(about), fields: Vec::new(), inner: Vec::new(), attributes };
    let mut field = Field::default();
    let mut about: Vec<&str> = Vec::new();
    // Whether the next variant is no word of a file, or another one than its name.
    let (mut is_skipped, mut renamed) = (false, None);
    for line in body {
        let depth = (line.len() - line.trim_start().len()) / 4;
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            if depth == 1 {
                about.push(text.trim());
            }
        } else if let Some(told) = line.strip_prefix("#[serde(") {
            field.default = field.default.take().or_else(|| default(told));
            is_skipped |= told == "skip)]";
            renamed = told.strip_prefix("rename = \"").and_then(|rest| rest.split('"').next());
        } else if depth == 1 && kind == Kind::Struct {
            if let Some((name, of)) = line.trim_end_matches(',').split_once(": ") {
                let name = name.trim_start_matches("pub ").to_owned();
                let about = paragraph(&std::mem::take(&mut about));
                item.fields.push(Field { name, about, of: of.to_owned(), ..std::mem::take(&mut field) });
            }
        } else if depth == 1 && line.starts_with(|first: char| first.is_ascii_uppercase()) {
            let (variant, of) =
                line.trim_end_matches([',', ')', '{', ' ']).split_once('(').unwrap_or((line, ""));
            let variant = variant.trim_end_matches([',', '{', ' ']);
            let name = renamed.take().map_or_else(|| written(variant, &item.attributes), str::to_owned);
            let about = paragraph(&std::mem::take(&mut about));
            if std::mem::take(&mut is_skipped) {
                continue;
            }
            item.fields.push(Field { name, about, of: of.to_owned(), ..std::mem::take(&mut field) });
        } else if depth == 2 && line.ends_with(',') && line.contains(": ") {
            item.inner.extend(line.split(": ").next().map(str::to_owned));
        }
    }
    item
}

/// What a comment says before its first empty line, links as words.
fn paragraph(lines: &[&str]) -> String {
    let first: Vec<&str> = lines.iter().copied().take_while(|line| !line.is_empty()).collect();
    first.join(" ").replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

/// `default` or `default = "name"` among what serde is told.
fn default(told: &str) -> Option<String> {
    let part = told.trim_end_matches(")]").split(", ").find(|part| part.starts_with("default"))?;
    Some(part.split('"').nth(1).unwrap_or_default().to_owned())
}

/// A variant's name in a file.
fn written(variant: &str, attributes: &str) -> String {
    let between = match attributes {
        told if told.contains("snake_case") => "_",
        told if told.contains("kebab-case") => "-",
        _ => "",
    };
    let mut name = String::new();
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push_str(between);
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}
