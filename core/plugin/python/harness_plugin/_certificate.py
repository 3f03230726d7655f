"""A certificate for one process.

Host and plugin speak mutual TLS with certificates that are made for one start of the plugin. Python's library cannot
make one, so this calls the OpenSSL that Python itself is linked with.
"""

from __future__ import annotations

import ctypes
import ssl


def make() -> tuple[bytes, bytes, bytes]:
    """A self-signed certificate for localhost with a new P-256 key: key and certificate as PEM, and the certificate as DER."""
    lib = _library()
    pointer, number = ctypes.c_void_p, ctypes.c_long

    def call(name: str, result: type, *args: object) -> int:
        f = getattr(lib, name)
        f.restype = result
        value = f(*args)
        if not value:
            raise OSError(f"OpenSSL: {name} failed")
        return value

    key = pointer(call("EVP_PKEY_Q_keygen", pointer, None, None, b"EC", b"P-256"))
    cert = pointer(call("X509_new", pointer))
    call("X509_set_version", ctypes.c_int, cert, number(2))  # v3
    call("ASN1_INTEGER_set", ctypes.c_int, pointer(call("X509_get_serialNumber", pointer, cert)), number(1))
    # From half a minute ago, for clocks that differ, to ten years from now, longer than any run.
    call("X509_gmtime_adj", pointer, pointer(call("X509_getm_notBefore", pointer, cert)), number(-30))
    call("X509_gmtime_adj", pointer, pointer(call("X509_getm_notAfter", pointer, cert)), number(10 * 365 * 86400))
    name = pointer(call("X509_get_subject_name", pointer, cert))
    call("X509_NAME_add_entry_by_txt", ctypes.c_int, name, b"CN", 0x1001, b"localhost", -1, -1, 0)  # MBSTRING_ASC
    call("X509_set_issuer_name", ctypes.c_int, cert, name)
    call("X509_set_pubkey", ctypes.c_int, cert, key)
    for extension, value in ((b"basicConstraints", b"critical,CA:TRUE"), (b"subjectAltName", b"DNS:localhost")):
        nid = call("OBJ_sn2nid", ctypes.c_int, extension)
        built = pointer(call("X509V3_EXT_conf_nid", pointer, None, None, nid, value))
        call("X509_add_ext", ctypes.c_int, cert, built, -1)
    call("X509_sign", ctypes.c_int, cert, key, pointer(call("EVP_sha256", pointer)))

    def written(function: str, *args: object) -> bytes:
        bio = pointer(call("BIO_new", pointer, pointer(call("BIO_s_mem", pointer))))
        call(function, ctypes.c_int, bio, *args)
        buffer = ctypes.create_string_buffer(1 << 14)
        n = call("BIO_read", ctypes.c_int, bio, buffer, len(buffer))
        return buffer.raw[:n]

    key_pem = written("PEM_write_bio_PKCS8PrivateKey", key, None, None, 0, None, None)
    cert_pem = written("PEM_write_bio_X509", cert)
    return key_pem, cert_pem, ssl.PEM_cert_to_DER_cert(cert_pem.decode())


def _library() -> ctypes.CDLL:
    """The OpenSSL that the module _ssl is linked with: its symbols can be looked up through the module's own library."""
    import _ssl

    if ssl.OPENSSL_VERSION_INFO < (3, 0):
        raise OSError(f"this Python has {ssl.OPENSSL_VERSION}, want OpenSSL 3.0 or later")
    return ctypes.CDLL(getattr(_ssl, "__file__", None))
