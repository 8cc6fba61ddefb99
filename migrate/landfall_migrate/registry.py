"""Addresses of schema registries, without the logins that may be in them."""

from landfall_migrate.draft import Draft


def take_registry(draft: Draft, field: str, key: str, login: str = "") -> None:
    """Set a registry by a key that has its URLs.

    Args:
        draft: the group.
        field: of the registry, such as ``decode.registry``.
        key: of the input, with URLs between commas.
        login: the key that has ``user:password``; empty if there is none.
    """
    found = draft.settings.given.get(key)
    written = ",".join(found.values) if found and not found.unresolved else ""
    urls = [without_login(url.strip()) for url in written.split(",") if url.strip()]
    draft.put(f"{field}.urls", [url for url, _ in urls], key)
    if any(has_login for _, has_login in urls):
        entries = {"username": key, "password": key}
        draft.secret("registry", f"{field}.secretRef", entries, "user and password in its URL")
    elif login and draft.settings.secret(login):
        entries = {"username": login, "password": login}
        draft.secret(
            "registry", f"{field}.secretRef", entries, "what is before and after the colon"
        )


def without_login(url: str) -> tuple[str, bool]:
    """A URL without user and password, and whether it had them."""
    scheme, _, rest = url.rpartition("://")
    login, at, host = rest.rpartition("@")
    return (f"{scheme}://{host}", True) if at and login else (url, False)
