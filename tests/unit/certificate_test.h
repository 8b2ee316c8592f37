/*
 * For servers with TLS in tests: a shell's command that makes, where it runs, a
 * certificate of localhost, cert.pem with key.pem, and ca.pem, which signed it.
 */
#ifndef UNIT_CERTIFICATE_TEST_H
#define UNIT_CERTIFICATE_TEST_H

#define MAKE_CERTIFICATES                                                                \
	"exec 2>openssl.log && umask 077 &&"                                             \
	" openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"          \
	" -keyout ca.key -out ca.pem -days 2 -subj /CN=ca &&"                            \
	" openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"                \
	" -keyout key.pem -out csr.pem -subj /CN=localhost &&"                           \
	" printf 'subjectAltName=DNS:localhost' >ext &&"                                 \
	" openssl x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -CAcreateserial"        \
	" -out cert.pem -days 2 -extfile ext"

#endif
