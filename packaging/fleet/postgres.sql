-- Role, schema and rights of a fleet's store. Run once by an administrator: psql -v ON_ERROR_STOP=1 -f postgres.sql
-- Change both passwords first. pg_hba.conf should let `sordino` in by TLS from the servers alone:
--   hostssl sordino sordino 10.0.0.0/28 scram-sha-256
CREATE ROLE sordino LOGIN PASSWORD 'change-me' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION CONNECTION LIMIT 100;
CREATE ROLE sordino_monitor LOGIN PASSWORD 'change-me-too' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION CONNECTION LIMIT 5;
CREATE DATABASE sordino;
REVOKE ALL ON DATABASE sordino FROM PUBLIC;
GRANT CONNECT ON DATABASE sordino TO sordino, sordino_monitor;

\connect sordino
REVOKE ALL ON SCHEMA public FROM PUBLIC;
-- The first server makes its tables here. It has no right anywhere else.
CREATE SCHEMA sordino AUTHORIZATION sordino;
ALTER ROLE sordino IN DATABASE sordino SET search_path = sordino;
-- Rows are sealed by a key that the database never has; still nobody else needs them. The monitor counts.
CREATE FUNCTION sordino.waiting() RETURNS TABLE (inferences BIGINT, bytes NUMERIC)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = sordino, pg_temp AS
    $$ BEGIN RETURN QUERY EXECUTE 'SELECT count(*), coalesce(sum(size), 0) FROM sordino_prepared'; END $$;
ALTER FUNCTION sordino.waiting() OWNER TO sordino;
REVOKE ALL ON FUNCTION sordino.waiting() FROM PUBLIC;
GRANT USAGE ON SCHEMA sordino TO sordino_monitor;
GRANT EXECUTE ON FUNCTION sordino.waiting() TO sordino_monitor;
