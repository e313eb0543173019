//! A real PostgreSQL, where one is named.

/// A PostgreSQL schema of its own.
pub(crate) struct Schema {
    address: String,
    pub(crate) name: String,
}

impl Schema {
    /// None, with a printed reason, where no PostgreSQL is named.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let Ok(address) = std::env::var("SORDINO_TEST_POSTGRES") else {
            eprintln!("SKIPPED: SORDINO_TEST_POSTGRES is not set; scripts/with-postgres COMMAND sets it");
            return None;
        };
        let schema = Self { address, name: name.to_owned() };
        schema.execute(&format!("CREATE SCHEMA {name}"));
        Some(schema)
    }

    pub(crate) fn execute(&self, text: &str) {
        let mut client = postgres::Client::connect(&self.address, postgres::NoTls).unwrap();
        client.batch_execute(text).unwrap();
    }

    /// As `serve --store` takes it.
    pub(crate) fn url(&self) -> String {
        let value = |key: &str| {
            let found = self.address.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
            found.unwrap().replace('/', "%2F")
        };
        let (user, host, database) = (value("user"), value("host"), value("dbname"));
        format!("postgres://{user}@{host}/{database}?options=-csearch_path%3D{}", self.name)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        self.execute(&format!("DROP SCHEMA {} CASCADE", self.name));
    }
}
